"""What an indexing run did: the object that `add_documents` and `rebuild_agent_index` print with `--json`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from agents.models import Agent
from knowledge.models import BuildPhase, Chunk


class OnProgress(Protocol):
    """Called with what is done and what there is to do in the phase; it may raise to stop the run
    (`knowledge.indexing.jobs`).
    """

    def __call__(self, done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None: ...


def no_progress(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
    """For callers who do not watch."""


@dataclass(slots=True)
class IndexReport:
    """Counts of one run. `waiting`: chunks without questions, `rejected`: those of the model that were not kept.
    `skipped`, `failed`: `{item, reason}`.
    """

    documents: int = 0
    chunks: int = 0
    points: int = 0
    embedded: int = 0
    reused: int = 0
    model_calls: int = 0
    rejected: int = 0
    waiting: int = 0
    skipped: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    #: Of the web: pages that were asked for, those that said nothing new, those that are gone or left their sitemap.
    pages: int = 0
    unchanged: int = 0
    gone: int = 0
    generation: str = ""
    #: Whether something failed for a reason that may pass, so that another run can complete it.
    may_pass: bool = False
    #: Of work that is left for later, when it goes on, and why where staff should know.
    goes_on_at: datetime | None = None
    goes_on_because: str = ""
    #: Of a filled generation, by document: what its points were made of.
    fingerprints: dict[int, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def skip(self, item: str, reason: str) -> None:
        self.skipped.append({"item": item, "reason": reason})

    def fail(self, item: str, reason: str, *, may_pass: bool = False) -> None:
        self.failed.append({"item": item, "reason": reason})
        self.may_pass = self.may_pass or may_pass

    def count(self, agent: Agent) -> None:
        """What the agent has, indexed or not."""
        chunks = Chunk.objects.filter(document__agent=agent)
        self.documents, self.chunks = agent.documents.count(), chunks.count()
        self.waiting = chunks.waiting().count()

    def go_on_from(self, told: Mapping[str, Any]) -> None:
        """Count what an earlier attempt of the same work did (`as_json`)."""
        for name in _OF_THE_MODEL:
            setattr(self, name, told.get(name, 0))

    def absorb(self, other: "IndexReport") -> None:
        """Add what another run did."""
        for name in _COUNTS + _OF_THE_WEB:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.skipped += other.skipped
        self.failed += other.failed
        self.may_pass = self.may_pass or other.may_pass

    def as_json(self) -> dict[str, Any]:
        """What happened in the web is told only where pages were looked for."""
        has_pages = any(getattr(self, name) for name in _OF_THE_WEB)
        counts = _COUNTS + (_OF_THE_WEB if has_pages else ())
        return {
            **{name: getattr(self, name) for name in counts},
            "skipped": self.skipped,
            "failed": self.failed,
            "seconds": round(time.monotonic() - self.started, 3),
        }


_COUNTS = (*("documents", "chunks", "points", "embedded", "reused", "model_calls", "rejected", "waiting"),)
_OF_THE_MODEL = ("model_calls", "rejected")
_OF_THE_WEB = ("pages", "unchanged", "gone")
