"""The stored trace of a turn: a line for each step, with what it decided and what it compared."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
        refused: Sequence[dict[str, Any]] = (),
    ) -> None:
        """`refused`: stored answers that came near and were not given (`faqs.recall.stored_refusal`)."""
        now = time.perf_counter()
        line: dict[str, Any] = {
            "step": step,
            "outcome": outcome,
            "score": None if score is None else round(score, 4),
            "threshold": threshold,
            "ms": round((now - self._last) * 1000, 2),
            "detail": detail,
        }
        if refused:
            line["refused"] = list(refused)
        self.lines.append(line)
        self._last = now

    def came_to(self, step: str, outcome: str, *, detail: str, entry: int | None) -> None:
        """What a step that had only been planned came to, once the turn was saved."""
        for line in self.lines:
            if line["step"] == step:
                line.update(outcome=outcome, detail=detail, entry=entry)

    def shows(self, text: str) -> None:
        """Have the last step tell the reader this reading of the question (`shown_reading`)."""
        self.lines[-1]["shown"] = text

    def gave(self, entry: int) -> None:
        """Name the entry of the memory that the last step gave."""
        self.lines[-1]["entry"] = entry


def shown_reading(lines: Sequence[Mapping[str, Any]]) -> str:
    """How the reader is told that the question was read, the last word of the steps; empty where it was read as typed."""
    return next((str(line["shown"]) for line in reversed(lines) if line.get("shown")), "")
