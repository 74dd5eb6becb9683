"""Writes the points of an agent's documents to every index in use, as the rows are now, and deletes all others.

Every write stores the document's fingerprint, by method. A document whose rows give another fingerprint is stale,
however they were changed: this detects bulk updates and scripts, which send no signal.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.models import Agent, IndexingMethod
from knowledge.above import PlannedPoint
from knowledge.embeddings.base import Recipe, embedder
from knowledge.errors import (
    CollectionMissingError,
    EmbeddingInputError,
    EmbeddingUnavailableError,
    VectorStoreUnavailableError,
    staff_reason,
)
from knowledge.indexing.points import (
    IndexReport,
    OnProgress,
    PointWriter,
    has_content,
    no_progress,
    plan_chunk,
    plan_document,
)
from knowledge.models import BuildPhase, Chunk, ChunkQuerySet, Document, DocumentStatus
from knowledge.vectors.base import CollectionInfo, VectorStore, collection_alias, vector_store
from knowledge.vectors.payloads import of_documents, undated

_STAMP = re.compile(r"_\d{8}T\d{12}$")
_GENERATION = re.compile(r"(?P<alias>agent_.+)_(?P<stamp>\d{8}T\d{6,})")


def new_generation(agent: Agent, method: IndexingMethod) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return f"{collection_alias(agent.slug, method)}_{stamp}"


def generations(store: VectorStore, agent: Agent, method: IndexingMethod) -> list[str]:
    """Every generation that the store holds, oldest first."""
    alias = collection_alias(agent.slug, method)
    return sorted(
        info.name for info in store.collections() if _STAMP.search(info.name) and _STAMP.sub("", info.name) == alias
    )


def superseded_generations(infos: Iterable[CollectionInfo], *, in_use: Collection[str]) -> list[CollectionInfo]:
    """The generations that can be dropped: those with no alias that are not `in_use`.

    The one in service and the one for a rollback both have an alias. Where none is in service the newest is kept, as it
    may be the only one. Collections not named as a generation are never returned.
    """
    by_alias: defaultdict[str, list[CollectionInfo]] = defaultdict(list)
    for info in infos:
        if match := _GENERATION.fullmatch(info.name):
            by_alias[match["alias"]].append(info)
    found = []
    for alias, same in sorted(by_alias.items()):
        kept = set(in_use)
        if not any(alias in info.aliases for info in same):
            kept.add(max(info.name for info in same))  # stamps sort by time
        found += [info for info in same if not info.aliases and info.name not in kept]
    return found


def previous_alias(agent: Agent, method: IndexingMethod) -> str:
    return f"{collection_alias(agent.slug, method)}_previous"


def previous_generation(store: VectorStore, agent: Agent, method: IndexingMethod) -> str | None:
    """The generation that answered before the current one; `None` when there was none, or after a rollback to it."""
    previous = store.resolve_alias(previous_alias(agent, method))
    current = store.resolve_alias(collection_alias(agent.slug, method))
    return previous if previous != current else None


def current_generation(store: VectorStore, agent: Agent, method: IndexingMethod, recipe: Recipe) -> str:
    """The collection behind the alias; a first, empty one is made where there is none.

    Raises `EmbeddingMismatchError` for another recipe, and `CollectionMissingError` where documents are indexed
    already: only a rebuild can make an index of them. The agent's row is locked, so two first runs cannot make two
    collections.
    """
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


#: Receives how many points of a group are done.
OnPart = Callable[[int], None]
#: Documents are written and marked as indexed in groups of about this many points; the first ones are small, so that
#: the first documents of many answer within seconds.
GROUP_POINTS = 1_024
FIRST_GROUP_POINTS = 64
#: Groups that may fail one after the other before the rest is given up: a store that is down fails each slowly.
_FAILURES_IN_A_ROW = 2
#: Times that a write follows an alias which was moved meanwhile.
_MAX_MOVES = 3


def write_documents(
    *, agent: Agent, documents: Sequence[Document], report: IndexReport, on_progress: OnProgress = no_progress
) -> list[Document]:
    """Bring the points of `documents` up to date in every index in use; returns those that were written.

    A group that fails for a reason that may pass is told in the report, and the next is tried. An index that was never
    built is left to a rebuild (`methods_without_index`): these documents alone would not be one.
    """
    methods = _methods_to_write(agent)
    sizes = {document.pk: count_points(document.chunks.all(), methods) for document in documents}
    total, done, failures = sum(sizes.values()), 0, 0
    written: list[Document] = []
    on_progress(0, total, BuildPhase.VECTORS)
    for group in _groups(documents, sizes):
        size = sum(sizes[document.pk] for document in group)

        def advance(part: int, at: int = done, most: int = size) -> None:
            on_progress(at + min(part, most), total, BuildPhase.VECTORS)

        try:
            if failures >= _FAILURES_IN_A_ROW:
                raise VectorStoreUnavailableError("Given up after failures in a row.")
            written_now = _write_group(agent, group, methods, report, advance)
        except (VectorStoreUnavailableError, EmbeddingUnavailableError) as error:
            failures += 1
            for document in group:
                refuse(document, staff_reason(error), report, may_pass=True)
        except EmbeddingInputError:
            written += _write_alone(agent, group, methods, report)
        else:
            failures = 0
            written += written_now
        done += size
        on_progress(done, total, BuildPhase.VECTORS)
    return written


def methods_without_index(agent: Agent) -> list[IndexingMethod]:
    """Methods in use whose index does not exist although there is something to put in it."""
    store = vector_store()
    return [
        method
        for method in sorted(agent.methods_in_use())
        if store.resolve_alias(collection_alias(agent.slug, method)) is None and has_content(agent, method)
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
    return [
        point.id for chunk in chunks for method in IndexingMethod for point in plan_chunk(chunk.document, chunk, method)
    ]


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


def drop_collections(names: Sequence[str]) -> None:
    store = vector_store()
    for name in names:
        store.drop(name)


def drop_abandoned_indexes(*, agent_slug: str) -> None:
    """Drop a deleted agent's indexes later, if the store was away; nothing where the slug has an agent again."""
    if not Agent.objects.filter(slug=agent_slug).exists():
        drop_collections(release_indexes(agent_slug=agent_slug))


def _methods_to_write(agent: Agent) -> list[IndexingMethod]:
    try:
        missing = methods_without_index(agent)
    except VectorStoreUnavailableError:
        missing = []  # the documents are tried, and each is told why it failed
    return sorted(agent.methods_in_use() - set(missing))


def _write_group(
    agent: Agent, documents: Sequence[Document], methods: Sequence[IndexingMethod], report: IndexReport, advance: OnPart
) -> list[Document]:
    """Write the group's points and mark it as indexed; returns the documents that still exist."""
    keys = [document.pk for document in documents]
    written = 0

    def add_up(done: int, _total: int, _phase: BuildPhase = BuildPhase.VECTORS) -> None:
        advance(written + done)

    for method in methods:
        written += _write_as_rows_say(agent, method, keys, report, add_up)
    Document.objects.filter(pk__in=keys).update(status=DocumentStatus.INDEXED, error="", indexed_at=timezone.now())
    left = set(Document.objects.filter(pk__in=keys).values_list("pk", flat=True))
    return [document for document in documents if document.pk in left]


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
        report.embedded += writer.counts.embedded
        reused = writer.counts.reused if not attempt else reused
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


def _write_alone(
    agent: Agent, documents: Sequence[Document], methods: Sequence[IndexingMethod], report: IndexReport
) -> list[Document]:
    """Write the documents one by one, so that one whose text cannot be embedded stops no other."""
    written = []
    for document in documents:
        try:
            left = _write_group(agent, [document], methods, report, lambda _part: None)
        except EmbeddingInputError as error:
            refuse(document, str(error.public_message), report)
        else:
            written += left
    return written


def _groups(documents: Sequence[Document], sizes: dict[int, int]) -> Iterator[list[Document]]:
    group: list[Document] = []
    size, most = 0, min(FIRST_GROUP_POINTS, GROUP_POINTS)
    for document in documents:
        if group and size + sizes[document.pk] > most:
            yield group
            group, size, most = [], 0, min(2 * most, GROUP_POINTS)
        group.append(document)
        size += sizes[document.pk]
    if group:
        yield group
