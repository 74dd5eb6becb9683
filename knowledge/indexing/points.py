"""The points of an agent: planned from its rows, and written to every index in use, embedding only what has no vector.

A stored point with the same id and payload is left alone; one with the same embedded text lends its vector. Ids are
deterministic: writing again overwrites and never doubles. Every write stores the document's fingerprint, by method: a
document whose rows give another fingerprint is stale, also after bulk updates and scripts, which send no signal.
"""

import hashlib
import json
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.models import Agent, IndexingMethod
from knowledge.embeddings.base import Embedder, Purpose, Recipe, Vectors, embedder
from knowledge.errors import (
    CollectionMissingError,
    EmbeddingInputError,
    EmbeddingUnavailableError,
    VectorStoreUnavailableError,
    staff_reason,
)
from knowledge.models import BuildPhase, Chunk, ChunkQuerySet, Document, DocumentStatus
from knowledge.search import answers_above
from knowledge.vectors.base import PayloadFilter, Point, VectorStore, batches, collection_alias, vector_store
from knowledge.vectors.payloads import (
    PlannedPoint,
    PointType,
    embedded_text,
    legacy_payload,
    of_documents,
    point_id,
    qa_pair_payload,
    source_material_payload,
    undated,
)

#: Points compared, embedded and written together: bounds memory, and what a crash can lose.
WRITE_BATCH = 256
#: Documents are written in groups of about this many points; the first are smaller, so that some answer soon.
GROUP_POINTS = 1_024
_FIRST_GROUP_POINTS = 64
#: Passes over rows that change while their points are written; what changes after the last follows by itself.
MAX_PASSES = 3
#: Times that a write follows an alias which was moved meanwhile.
_MAX_MOVES = 3
_GENERATION = re.compile(r"(?P<alias>agent_.+)_\d{8}T\d{6,}")


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
_OF_THE_WEB = ("pages", "unchanged", "gone")


def new_generation(agent: Agent, method: IndexingMethod) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return f"{collection_alias(agent.slug, method)}_{stamp}"


def alias_of(collection: str) -> str:
    """The alias that a generation is made for; empty for another collection."""
    found = _GENERATION.fullmatch(collection)
    return found["alias"] if found else ""


def generations(store: VectorStore, agent: Agent, method: IndexingMethod) -> list[str]:
    """Every generation that the store holds, oldest first."""
    alias = collection_alias(agent.slug, method)
    return sorted(info.name for info in store.collections() if alias_of(info.name) == alias)


def previous_alias(agent: Agent, method: IndexingMethod) -> str:
    return f"{collection_alias(agent.slug, method)}_previous"


def previous_generation(store: VectorStore, agent: Agent, method: IndexingMethod) -> str | None:
    """The generation that answered before the current one; `None` when there was none, or after a rollback to it."""
    previous = store.resolve_alias(previous_alias(agent, method))
    current = store.resolve_alias(collection_alias(agent.slug, method))
    return previous if previous != current else None


def current_generation(store: VectorStore, agent: Agent, method: IndexingMethod, recipe: Recipe) -> str:
    """The collection behind the alias; a first, empty one is made where there is none. Raises `EmbeddingMismatchError`
    for another recipe, and `CollectionMissingError` where documents are indexed already: only a rebuild can make an
    index of them. The agent's row is locked, so two first runs cannot make two collections."""
    alias = collection_alias(agent.slug, method)
    with transaction.atomic():
        Agent.objects.select_for_update().get(pk=agent.pk)
        current = store.resolve_alias(alias)
        if current is None:
            if agent.documents.filter(status=DocumentStatus.INDEXED).exists():
                raise CollectionMissingError(
                    f"{alias} has not been built yet.",
                    public_message=_("L’index %(name)s n’existe pas encore : construisez-le avec rebuild_agent_index.")
                    % {"name": alias},
                )
            current = new_generation(agent, method)
            store.ensure(current, recipe)
            store.point_alias(alias, current)
    store.ensure(current, recipe)
    return current


def plan_agent(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """Every point that the agent's index holds under `method`, documents first."""
    for document in agent.documents.select_related("category").order_by("pk"):
        yield from plan_document(document, method)
    yield from answers_above().plan_points(agent, method)


def plan_document(document: Document, method: IndexingMethod) -> Iterator[PlannedPoint]:
    chunks = document.chunks.served().select_related("category").order_by("index", "pk")
    for chunk in chunks.iterator(chunk_size=500):
        yield from plan_chunk(chunk, method)


def plan_chunk(chunk: Chunk, method: IndexingMethod) -> Iterator[PlannedPoint]:
    """The points of one chunk (seed 001, sections 1.2 and 1.3): in `qr_atomique` one a question, and one of its text. A
    chunk without questions has the latter all the same (seed 001 skips it): nothing could be found otherwise."""
    if method is IndexingMethod.LEGACY:
        yield PlannedPoint(_id(chunk, PointType.LEGACY), legacy_payload(chunk))
        return
    for ordinal, unit in enumerate(chunk.knowledge_units):
        payload = qa_pair_payload(chunk, question=unit["question"], answer=unit["answer"])
        yield PlannedPoint(_id(chunk, PointType.QA_PAIR, ordinal), payload)
    yield PlannedPoint(_id(chunk, PointType.SOURCE_MATERIAL), source_material_payload(chunk))


def _id(chunk: Chunk, kind: PointType, ordinal: int = 0) -> str:
    return point_id(agent_id=chunk.document.agent_id, kind=kind, chunk_id=chunk.pk, ordinal=ordinal)


@dataclass(slots=True)
class PointWriter:
    """Writes planned points into one collection; `donors` are collections whose vectors may be reused."""

    store: VectorStore
    collection: str
    embedder: Embedder
    donors: Sequence[str] = ()
    embedded: int = 0
    reused: int = 0
    written: int = 0

    def write(self, planned: Sequence[PlannedPoint], on_progress: OnProgress = no_progress) -> None:
        done = 0
        for batch in batches(planned, WRITE_BATCH):
            self._write_batch(batch)
            done += len(batch)
            on_progress(done, len(planned), BuildPhase.VECTORS)

    def settle(
        self, planned: Sequence[PlannedPoint], listed: Collection[str], on_progress: OnProgress = no_progress
    ) -> bool:
        """Write the planned points and delete the others `listed` (before the rows were read); whether any was due."""
        written = self.written
        self.write(planned, on_progress)
        wanted = {point.id for point in planned}
        strays = [point_id for point_id in listed if point_id not in wanted]
        if strays:
            self.store.delete(self.collection, strays)
        return bool(strays) or self.written != written

    def follow(
        self, kept: PayloadFilter, plan: Callable[[], Iterable[PlannedPoint]], on_progress: OnProgress = no_progress
    ) -> list[PlannedPoint]:
        """Make the points of this filter those that `plan` reads, again until nothing has changed."""
        planned: list[PlannedPoint] = []
        for _pass in range(MAX_PASSES):
            listed = self.store.ids_where(self.collection, kept)
            planned = list(plan())
            if not self.settle(planned, listed, on_progress):
                break
        return planned

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
        self.written += len(points)
        self.reused += len(batch) - len(missing)

    def _vectors(self, points: list[PlannedPoint], known: dict[str, Point]) -> dict[str, Vectors]:
        vectors: dict[str, Vectors] = {}
        fresh: dict[Purpose, list[tuple[str, str]]] = {}
        for point in points:
            text, purpose = embedded_text(point.payload)
            old = known.get(point.id)
            if old is not None and embedded_text(old.payload) == (text, purpose):
                vectors[point.id] = old.vector
                self.reused += 1
            else:
                fresh.setdefault(purpose, []).append((point.id, text))
        for purpose, group in fresh.items():
            rows = self.embedder.embed([text for _, text in group], purpose=purpose)
            vectors.update({key: row for (key, _), row in zip(group, rows, strict=True)})
            self.embedded += len(group)
        return vectors


def write_documents(
    *, agent: Agent, documents: Sequence[Document], report: IndexReport, on_progress: OnProgress = no_progress
) -> list[Document]:
    """Bring the points of `documents` up to date in every index in use; returns those that were written. After a
    failure that may pass the rest is given up, and each document told why: a store that is down fails each slowly. An
    index that was never built is left to a rebuild: these documents alone would not be one."""
    sizes = {document.pk: count_points(document.chunks.all(), sorted(agent.methods_in_use())) for document in documents}
    total, done = sum(sizes.values()), 0
    written: list[Document] = []
    waiting = deque(_groups(documents, sizes))
    on_progress(0, total, BuildPhase.VECTORS)
    while waiting:
        group = waiting.popleft()

        def advance(part: int, at: int = done) -> None:
            on_progress(min(at + part, total), total, BuildPhase.VECTORS)

        try:
            written += _write_group(agent, group, report, advance)
        except (VectorStoreUnavailableError, EmbeddingUnavailableError) as error:
            for document in [*group, *(each for later in waiting for each in later)]:
                refuse(document, staff_reason(error), report, may_pass=True)
            break
        except EmbeddingInputError as error:
            # A text that cannot be embedded stops its own document alone.
            if len(group) > 1:
                waiting.extendleft([document] for document in reversed(group))
                continue
            refuse(group[0], str(error.public_message), report)
        done += sum(sizes[document.pk] for document in group)
        on_progress(done, total, BuildPhase.VECTORS)
    return written


def _groups(documents: Sequence[Document], sizes: Mapping[int, int]) -> Iterator[list[Document]]:
    group: list[Document] = []
    size, most = 0, min(_FIRST_GROUP_POINTS, GROUP_POINTS)
    for document in documents:
        if group and size + sizes[document.pk] > most:
            yield group
            group, size, most = [], 0, min(2 * most, GROUP_POINTS)
        group.append(document)
        size += sizes[document.pk]
    if group:
        yield group


def _write_group(
    agent: Agent, documents: Sequence[Document], report: IndexReport, advance: Callable[[int], None]
) -> list[Document]:
    """Write the group's points and mark it as indexed; returns the documents that still exist."""
    keys = [document.pk for document in documents]
    written = 0

    def add_up(done: int, _total: int, _phase: BuildPhase = BuildPhase.VECTORS) -> None:
        advance(written + done)

    for method in sorted(agent.methods_in_use() - set(methods_without_index(agent))):
        written += _write_as_rows_say(agent, method, keys, report, add_up)
    Document.objects.filter(pk__in=keys).update(status=DocumentStatus.INDEXED, error="", indexed_at=timezone.now())
    left = set(Document.objects.filter(pk__in=keys).values_list("pk", flat=True))
    return [document for document in documents if document.pk in left]


def methods_without_index(agent: Agent) -> list[IndexingMethod]:
    """Methods in use whose index does not exist although there is something to put in it."""
    store = vector_store()
    missing = [
        method
        for method in sorted(agent.methods_in_use())
        if store.resolve_alias(collection_alias(agent.slug, method)) is None
    ]
    has_documents = bool(missing) and agent.documents.filter(status=DocumentStatus.INDEXED).exists()
    return [
        method
        for method in missing
        if has_documents or next(answers_above().plan_points(agent, method), None) is not None
    ]


def count_points(chunks: ChunkQuerySet, methods: Sequence[IndexingMethod]) -> int:
    """How many points these chunks have, in all of these methods."""
    units = list(chunks.served().values_list("knowledge_units", flat=True))
    by_method = {IndexingMethod.QA_ATOMIC: sum(len(each) + 1 for each in units), IndexingMethod.LEGACY: len(units)}
    return sum(by_method[method] for method in methods)


def refuse(document: Document, reason: str, report: IndexReport, *, may_pass: bool = False) -> None:
    """Mark a document as failed, on its row and in the report; where that may pass, it stays indexed, as stale."""
    if may_pass and document.status == DocumentStatus.INDEXED:
        report.fail(document.name, reason, may_pass=True)
        return
    document.status, document.error = DocumentStatus.FAILED, reason
    # By key: one that was deleted meanwhile is no error.
    Document.objects.filter(pk=document.pk).update(status=document.status, error=reason)
    report.fail(document.name, reason, may_pass=may_pass)


def stale_documents(agent: Agent) -> list[int]:
    """Indexed documents whose points differ from their rows, in a method in use."""
    methods = sorted(agent.methods_in_use())
    documents = agent.documents.filter(status=DocumentStatus.INDEXED).select_related("category")
    return [
        document.pk
        for document in documents.order_by("pk").iterator(chunk_size=500)
        if any(
            document.indexed_state.get(method.value) != fingerprint(plan_document(document, method))
            for method in methods
        )
    ]


def fingerprint(planned: Iterable[PlannedPoint]) -> str:
    digest = hashlib.sha256()
    for point in planned:
        said = json.dumps(undated(point.payload), sort_keys=True)
        digest.update(f"{point.id}{said}".encode())
    return digest.hexdigest()


def note_indexed(documents: Iterable[Document], method: IndexingMethod, fingerprints: dict[int, str]) -> None:
    """Store the fingerprints of the points of `method`."""
    changed = []
    for document in documents:
        if document.indexed_state.get(method.value) != fingerprints[document.pk]:
            document.indexed_state = {**document.indexed_state, method.value: fingerprints[document.pk]}
            changed.append(document)
    Document.objects.bulk_update(changed, ["indexed_state"], batch_size=500)


def point_ids(chunks: Iterable[Chunk]) -> list[str]:
    """The ids of every point that these chunks own, in both methods."""
    return [point.id for chunk in chunks for method in IndexingMethod for point in plan_chunk(chunk, method)]


def remove_points(*, agent_slug: str, ids: Sequence[str]) -> None:
    """Delete points from every current index of the agent."""
    store = vector_store()
    for method in IndexingMethod:
        alias = collection_alias(agent_slug, method)
        for _attempt in range(_MAX_MOVES):
            current = store.resolve_alias(alias)
            if current is None:
                break
            store.delete(current, ids)
            if store.resolve_alias(alias) == current:
                break


def release_indexes(*, agent_slug: str) -> list[str]:
    """Remove the aliases of a deleted agent; returns its generations, to be dropped by these names, not the slug."""
    store, deleted = vector_store(), Agent(slug=agent_slug)
    names = [name for method in IndexingMethod for name in generations(store, deleted, method)]
    for method in IndexingMethod:
        for alias in (collection_alias(agent_slug, method), previous_alias(deleted, method)):
            if store.resolve_alias(alias) in names:
                store.remove_alias(alias)
    return names


def _write_as_rows_say(
    agent: Agent, method: IndexingMethod, keys: Sequence[int], report: IndexReport, on_progress: OnProgress
) -> int:
    """Write the rows' points into the current generation, again where they changed meanwhile; returns how many."""
    model, store = embedder(), vector_store()
    reused = 0
    written: dict[int, list[PlannedPoint]] = {}
    for attempt in range(_MAX_MOVES):
        collection = current_generation(store, agent, method, model.recipe)
        listed = store.ids_where(collection, of_documents(keys)) if keys else []
        planned = _plan(keys, method)
        points = [point for each in planned.values() for point in each]
        writer = PointWriter(store=store, collection=collection, embedder=model)
        writer.settle(points, listed, on_progress)
        report.embedded += writer.embedded
        reused = writer.reused if not attempt else reused
        written = planned
        moved = store.resolve_alias(collection_alias(agent.slug, method)) != collection
        if not moved and _fingerprints(_plan(keys, method)) == _fingerprints(written):
            break
    report.reused += reused
    report.points += sum(len(each) for each in written.values())
    documents = Document.objects.filter(pk__in=written)
    note_indexed(documents, method, _fingerprints(written))
    return sum(len(each) for each in written.values())


def _plan(keys: Sequence[int], method: IndexingMethod) -> dict[int, list[PlannedPoint]]:
    """The documents' points from their current rows."""
    rows = Document.objects.filter(pk__in=keys).select_related("category", "agent")
    return {document.pk: list(plan_document(document, method)) for document in rows}


def _fingerprints(planned: dict[int, list[PlannedPoint]]) -> dict[int, str]:
    return {pk: fingerprint(points) for pk, points in planned.items()}
