"""The stored trace of a turn: one line a step, and the one place that logs about a turn.

A line has the step, its outcome, the score and threshold it compared, its milliseconds and a short detail for staff.
Message text never reaches the log from here, only identifiers and outcomes.
"""

import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from agents.exceptions import ApplicationError
from chat.exceptions import IsolationError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Trace:
    """Steps in their order; each `step` closes the time since the one before."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    _last: float = field(default_factory=time.perf_counter)

    def step(
        self,
        step: str,
        outcome: str,
        *,
        score: float | None = None,
        threshold: float | None = None,
        detail: str = "",
    ) -> None:
        now = time.perf_counter()
        self.lines.append(
            {
                "step": step,
                "outcome": outcome,
                "score": None if score is None else round(score, 4),
                "threshold": threshold,
                "ms": round((now - self._last) * 1000, 2),
                "detail": detail,
            }
        )
        self._last = now


def log_turn(
    turn_id: uuid.UUID | None,
    status: str,
    *,
    answer_source: str,
    llm_calls: int,
    error: ApplicationError | None = None,
) -> None:
    """One line a turn. The text of an error of ours names statuses and identifiers, never what a person wrote."""
    facts = (turn_id, status, answer_source, llm_calls)
    if error is None:
        logger.info("turn round_id=%s status=%s answer_source=%s llm_calls=%d", *facts)
        return
    logger.log(
        logging.ERROR if isinstance(error, IsolationError) else logging.WARNING,
        "turn round_id=%s status=%s answer_source=%s llm_calls=%d error=%s detail=%s",
        *facts,
        error.code,
        error,
    )
