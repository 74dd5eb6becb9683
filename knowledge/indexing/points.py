"""Plans points from rows (documents, `knowledge.above`) and writes them, embedding only what has no vector yet.

A stored point with the same id and payload is left alone; one with the same embedded text lends its vector. Ids are
deterministic: writing again overwrites and never doubles.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from agents.models import Agent, IndexingMethod
from knowledge.above import PlannedPoint, answers_above
from knowledge.embeddings.base import Embedder, Purpose, Vectors
from knowledge.models import BuildPhase, Chunk, Document, DocumentStatus
from knowledge.vectors.base import Point, VectorStore, batches
from knowledge.vectors.payloads import (
    ChunkFacts,
    PointType,
    embedded_text,
    faq_payload,
    legacy_payload,
    point_id,
    qa_pair_payload,
    source_material_payload,
)


class OnProgress(Protocol):
    """Called with the done and the total count of a phase; may raise to stop the run (`knowledge.indexing.jobs`)."""

    def __call__(self, done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None: ...


def no_progress(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
    """Ignore the progress, for callers without a display."""


@dataclass(slots=True)
class IndexReport:
    """The counts of one run; `waiting` chunks have no questions, `rejected` are units of the model."""

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
        """Count the agent's documents and chunks, indexed or not."""
        chunks = Chunk.objects.filter(document__agent=agent)
        self.documents, self.chunks = agent.documents.count(), chunks.count()
        self.waiting = chunks.waiting().count()

    def go_on_from(self, told: Mapping[str, Any]) -> None:
        """Count what an earlier attempt of the same work did (`as_json`)."""
        for name in _OF_THE_MODEL:
            setattr(self, name, told.get(name, 0))

    def absorb(self, other: "IndexReport") -> None:
        """Add another run's counts."""
        for name in _COUNTS + _OF_THE_WEB:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.skipped += other.skipped
        self.failed += other.failed
        self.may_pass = self.may_pass or other.may_pass

    def as_json(self) -> dict[str, Any]:
        """The report as JSON; counts of web pages only where pages were fetched."""
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


#: Points compared, embedded and written together: bounds memory, and what a crash can lose.
WRITE_BATCH = 256


def plan_agent(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """Every point that the agent's index holds under `method`, documents first."""
    for document in agent.documents.select_related("category").order_by("pk"):
        yield from plan_document(document, method)
    yield from answers_above().plan_points(agent, method)


def has_content(agent: Agent, method: IndexingMethod) -> bool:
    """Whether anything belongs into the agent's index by now: an indexed document, or a point of another app."""
    indexed = agent.documents.filter(status=DocumentStatus.INDEXED)
    return indexed.exists() or next(answers_above().plan_points(agent, method), None) is not None


def plan_faq_point(*, agent_id: int, point_id: str, question: str, answer: str, indexed_at: str) -> PlannedPoint:
    """One phrasing of a validated answer, the same in every collection that holds it (seed 001, section 5.4)."""
    payload = faq_payload(agent_id=agent_id, question=question, answer=answer, indexed_at=indexed_at)
    return PlannedPoint(id=point_id, payload=payload)


def plan_document(document: Document, method: IndexingMethod) -> Iterator[PlannedPoint]:
    chunks = document.chunks.served().select_related("category").order_by("index", "pk")
    for chunk in chunks.iterator(chunk_size=500):
        yield from plan_chunk(document, chunk, method)


def plan_chunk(document: Document, chunk: Chunk, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """The points of one chunk (seed 001, sections 1.2 and 1.3).

    `legacy`: one, its vector made of category and content. `qr_atomique`: one a question, and one of the chunk's text.
    A chunk without questions has the latter all the same, with the heading path in the place of the summary: without a
    model nothing could be found otherwise (seed 001 skips it).
    """
    facts = _facts(document, chunk)
    if method is IndexingMethod.LEGACY:
        yield PlannedPoint(_id(facts, PointType.LEGACY), legacy_payload(facts))
        return
    for ordinal, unit in enumerate(chunk.knowledge_units):
        payload = qa_pair_payload(facts, question=unit["question"], answer=unit["answer"])
        yield PlannedPoint(_id(facts, PointType.QA_PAIR, ordinal), payload)
    yield PlannedPoint(_id(facts, PointType.SOURCE_MATERIAL), source_material_payload(facts))


def _id(facts: ChunkFacts, kind: PointType, ordinal: int = 0) -> str:
    return point_id(agent_id=facts.agent_id, kind=kind, chunk_id=facts.chunk_id, ordinal=ordinal)


def _facts(document: Document, chunk: Chunk) -> ChunkFacts:
    return ChunkFacts(
        agent_id=document.agent_id,
        document_id=document.pk,
        document_uuid=str(document.uuid),
        document_title=document.title or document.name,
        source_type=document.source_type,
        chunk_id=chunk.pk,
        chunk_index=chunk.index,
        parent_context=chunk.parent_context,
        content=chunk.content,
        summary=chunk.summary,
        keywords=tuple(chunk.keywords),
        category=document.category.name if document.category else "",
        chunk_category=chunk.category.name if chunk.category else "",
        chunk_category_id=chunk.category_id,
        indexed_at=document.created_at.isoformat(),
    )


@dataclass(slots=True)
class WriteCounts:
    embedded: int = 0
    reused: int = 0
    written: int = 0


@dataclass(slots=True)
class PointWriter:
    """Writes planned points into one collection; `donors` are collections whose vectors may be reused."""

    store: VectorStore
    collection: str
    embedder: Embedder
    donors: Sequence[str] = ()
    counts: WriteCounts = field(default_factory=WriteCounts)

    def write(self, planned: Sequence[PlannedPoint], on_progress: OnProgress = no_progress) -> None:
        done = 0
        for batch in batches(planned, WRITE_BATCH):
            self._write_batch(batch)
            done += len(batch)
            on_progress(done, len(planned))

    def settle(
        self,
        planned: Sequence[PlannedPoint],
        listed: Collection[str],
        on_progress: OnProgress = no_progress,
        *,
        due: Sequence[PlannedPoint] | None = None,
    ) -> bool:
        """Write what is due of the planned points (all of them, if not said), and delete the other points `listed`.

        Returns whether anything was to be done. Whoever writes beside others lists before the rows are read: a point
        written meanwhile belongs to a row written before it, and is no stray.
        """
        written = self.counts.written
        self.write(planned if due is None else due, on_progress)
        wanted = {point.id for point in planned}
        strays = [point_id for point_id in listed if point_id not in wanted]
        if strays:
            self.store.delete(self.collection, strays)
        return bool(strays) or self.counts.written != written

    def _write_batch(self, batch: list[PlannedPoint]) -> None:
        ids = [point.id for point in batch]
        stored = self.store.fetch(self.collection, ids)
        missing = [point for point in batch if point.differs_from(stored)]
        known = dict(stored)
        for donor in self.donors:
            known = {**self.store.fetch(donor, [point.id for point in missing]), **known}
        vectors = self._vectors(missing, known)
        points = [Point(p.id, vectors[p.id], p.payload) for p in missing]
        if points:
            self.store.upsert(self.collection, points)
        self.counts.written += len(points)
        self.counts.reused += len(batch) - len(missing)

    def _vectors(self, points: list[PlannedPoint], known: dict[str, Point]) -> dict[str, Vectors]:
        vectors: dict[str, Vectors] = {}
        fresh: dict[Purpose, list[tuple[str, str]]] = {}
        for point in points:
            text, purpose = embedded_text(point.payload)
            old = known.get(point.id)
            if old is not None and embedded_text(old.payload) == (text, purpose):
                vectors[point.id] = old.vector
                self.counts.reused += 1
            else:
                fresh.setdefault(purpose, []).append((point.id, text))
        for purpose, group in fresh.items():
            rows = self.embedder.embed([text for _, text in group], purpose=purpose)
            vectors.update({key: row for (key, _), row in zip(group, rows, strict=True)})
            self.counts.embedded += len(group)
        return vectors
