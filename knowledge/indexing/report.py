"""What an indexing run did: the object that `add_documents` and `rebuild_agent_index` print with `--json`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: Called with what is done and what there is to do, in points.
OnProgress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """For callers who do not watch."""


@dataclass(slots=True)
class IndexReport:
    """Counts of one run. `waiting`: chunks without questions. `skipped`, `failed`: `{item, reason}`."""

    documents: int = 0
    chunks: int = 0
    points: int = 0
    embedded: int = 0
    reused: int = 0
    model_calls: int = 0
    waiting: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    generation: str = ""
    started: float = field(default_factory=time.monotonic)

    def skip(self, item: str, reason: str) -> None:
        self.skipped.append({"item": item, "reason": reason})

    def fail(self, item: str, reason: str) -> None:
        self.failed.append({"item": item, "reason": reason})

    def as_json(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "chunks": self.chunks,
            "points": self.points,
            "embedded": self.embedded,
            "reused": self.reused,
            "model_calls": self.model_calls,
            "waiting": self.waiting,
            "skipped": self.skipped,
            "failed": self.failed,
            "seconds": round(time.monotonic() - self.started, 3),
        }
