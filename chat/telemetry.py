"""What is logged and counted about turns: identifiers, outcomes, sizes and times; `/metrics` reads the figures.

The text of a message reaches the log here alone: at level DEBUG, and the stored question of a direct answer at INFO;
shortened, and with everything masked that may name a person (addresses, numbers, words with a capital). No label of a
figure holds what somebody wrote or who they are.
"""

import logging
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from agents.errors import ApplicationError
from agents.llm.base import PromptMessage, RequestedCall
from chat.errors import IsolationError

logger = logging.getLogger(__name__)


def log_turn(facts: Mapping[str, object], error: ApplicationError | None = None) -> None:
    """One line a turn. The text of an error of ours names statuses and identifiers, never what a person wrote."""
    level = logging.INFO
    if error is not None:
        level = logging.ERROR if isinstance(error, IsolationError) else logging.WARNING
        facts = {**facts, "error": error.code, "detail": str(error)}
    logger.log(level, "turn %s", " ".join(f"{name}={value}" for name, value in facts.items()))


def log_direct_answer(turn_id: uuid.UUID | None, agent: str, stored_question: str, score: float) -> None:
    """A stored answer was given without a model (seed 001, section 5.1.2): whose question it is the answer to."""
    facts = (turn_id, agent, score, masked(stored_question))
    logger.info("direct answer round_id=%s agent=%s score=%.4f question_matched=%s", *facts)


#: How many of the last messages are logged before a call (seed 002, section VI).
LOGGED_MESSAGES = 8
LOGGED_CHARACTERS = 120
_PERSONAL = re.compile(r"\S*@\S*|\w+://\S+|\S*\d\S*|(?<!\w)[^\W\d_a-zà-öø-ÿ][\w’'-]*")


def masked(text: str) -> str:
    """A short excerpt without addresses, numbers and capitalised words."""
    return _PERSONAL.sub("•••", " ".join(text[: 4 * LOGGED_CHARACTERS].split()))[:LOGGED_CHARACTERS]


def log_model_call(
    messages: Sequence[PromptMessage], *, turn_id: uuid.UUID | None, operation_id: uuid.UUID | None, round_index: int
) -> None:
    """One line before a call of the loop: which messages it ends with, by role and size."""
    shown = [_shape(message) for message in messages[-LOGGED_MESSAGES:]]
    facts = (turn_id, operation_id, round_index, len(messages), " ".join(shown))
    logger.info("model call round_id=%s operation_id=%s relance_index=%d messages=%d last=%s", *facts)
    if logger.isEnabledFor(logging.DEBUG):
        for message in messages[-LOGGED_MESSAGES:]:
            logger.debug("round_id=%s %s: %s", turn_id, message.role, masked(message.content))


def _shape(message: PromptMessage) -> str:
    if message.tool_calls:
        return f"assistant(tool_calls={len(message.tool_calls)})"
    return f"{message.role}({len(message.content)})"


def log_tool_calls(calls: Iterable[RequestedCall], *, turn_id: uuid.UUID | None, round_index: int) -> None:
    """The calls of a round, by name and id; arguments stay out."""
    named = " ".join(f"{call.name}({call.id})" for call in calls)
    logger.info("tool calls round_id=%s relance_index=%d calls=%s", turn_id, round_index, named)


def log_batch(
    event: str, *, turn_id: uuid.UUID | None, operation_id: uuid.UUID, round_index: int, applied: bool | None
) -> None:
    """How a batch went: `applied`, `replayed`, `conflict` (then `applied` is unknown), `repaired`."""
    facts = (event, turn_id, operation_id, round_index, "unknown" if applied is None else str(applied).lower())
    logger.info("batch %s round_id=%s operation_id=%s relance_index=%d applied=%s", *facts)


def log_isolation(conversation_id: uuid.UUID | None, foreign: Iterable[uuid.UUID | None]) -> None:
    others = ",".join(sorted({str(identifier) for identifier in foreign}))
    logger.error("isolation violated session_id=%s foreign=%s", conversation_id, others)


#: Seconds: an answer from the memory takes milliseconds, one of the model with tools a minute.
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

TURNS = Counter("repondant_turns", "Turns that ended, by status and exit.", ["status", "source"])
FAILURES = Counter("repondant_turn_failures", "Turns that failed, by error code.", ["code"])
REFUSED = Counter("repondant_refused_questions", "Questions refused because of overload.")
MODEL_CALLS = Counter("repondant_model_calls", "Calls of the language model for answers.")
TURN_SECONDS = Histogram(
    "repondant_turn_seconds", "From the question to the stored answer.", ["source"], buckets=_BUCKETS
)
FIRST_TEXT_SECONDS = Histogram("repondant_first_text_seconds", "From the question to the first text.", buckets=_BUCKETS)
RUNNING = Gauge("repondant_running_turns", "Turns that run now.", multiprocess_mode="livesum")
SOCKETS = Gauge("repondant_sockets", "Open WebSockets.", multiprocess_mode="livesum")


class ModelSeen:
    """Whether the language model answered or failed the last turn of this process that asked it, and when."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._status = "unknown"
        self._detail = ""

    def note(self, *, failed: bool, detail: str = "") -> None:
        self._at, self._status, self._detail = time.monotonic(), "failing" if failed else "ok", detail

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"status": self._status}
        if self._at is not None:
            found["seconds_ago"] = round(time.monotonic() - self._at, 1)
        return {**found, "detail": self._detail} if self._status == "failing" else found


MODEL_SEEN = ModelSeen()


class TurnClock:
    """Times one turn: its first text, then its end."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._has_text = False

    def text(self) -> None:
        if not self._has_text:
            self._has_text = True
            FIRST_TEXT_SECONDS.observe(time.perf_counter() - self._start)

    def milliseconds(self) -> int:
        """So far."""
        return round(1000 * (time.perf_counter() - self._start))

    def ended(self, *, status: str, source: str, llm_calls: int, error_code: str, detail: str = "") -> None:
        """`source` is empty where the turn ended before one was chosen."""
        TURNS.labels(status, source).inc()
        MODEL_CALLS.inc(llm_calls)
        if error_code:
            FAILURES.labels(error_code).inc()
        if error_code.startswith("llm_") or (llm_calls and not error_code):
            MODEL_SEEN.note(failed=bool(error_code), detail=detail)
        if source:
            TURN_SECONDS.labels(source).observe(time.perf_counter() - self._start)
