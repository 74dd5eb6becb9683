"""Memories with more entries than an array should hold: their vectors in a Qdrant collection of their own.

The rows stay the truth. A collection holds the vector and the key of each valid entry of a shelf, as of the shelf's
`indexed_version`; what was written later is read from the database into a small array (`faqs.memory.array`). A hit of
the collection is compared anew with its row: a point that is stale or has no row answers nothing.

`follow_index` brings a collection to the rows; `rebuild_index` makes one anew beside the old one, then switches. Both
wait for the network, and belong to workers and commands. `indexed_neighbours` is the network half of a lookup and
touches no database. Without a Qdrant server (`QDRANT_URL`) every memory stays in an array.
"""

import logging
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from agents.effective import effective_config
from agents.errors import ApplicationError
from agents.processes.asking import ask_worker
from agents.processes.remembered import Remembered
from faqs.memory.array import MemoryMark
from faqs.memory.entries import kept_days, prune_expired, prunes_itself
from faqs.memory.keys import recipe_key
from faqs.models import CachedResponse, DeletedResponse, EntryStatus, MemoryShelf
from knowledge.embeddings.base import Recipe, embedder
from knowledge.vectors.base import Point, Query, Vector, VectorStore, Wanted, batches, vector_store

logger = logging.getLogger(__name__)

#: Rows read from the database, and points written, at once.
_BATCH = 500
#: Seconds between two countings of the memories that are still in arrays.
_COUNT_SECONDS = 60.0
FOLLOW_TASK = "faqs.tasks.follow_indexes"
#: How long the task may take: a million entries are written in less.
INDEX_SECONDS = 3_600
_LOCK = "memory-indexes"
_FLOAT32 = np.dtype("<f4")
#: When the memories were last counted.
_counted: Remembered[datetime] = Remembered(_COUNT_SECONDS)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was done to the collection of one memory."""

    deployment_id: int
    written: int = 0
    removed: int = 0
    rebuilt: bool = False


def memory_store() -> VectorStore | None:
    """Where large memories are looked up; `None` where no Qdrant is configured."""
    return vector_store("qdrant") if "qdrant" in settings.VECTOR_STORES else None


def memory_alias(shelf: uuid.UUID) -> str:
    """The name of a shelf's collection; an alias, so that a rebuilt one takes over in one step."""
    return f"memory_{shelf.hex}"


# --- Looking up ------------------------------------------------------------------------------------------------------


def is_indexed(mark: MemoryMark, recipe: Recipe) -> bool:
    """Whether this memory is looked up in its collection, as it stood at the mark."""
    return mark.indexed_recipe == recipe_key(recipe) and memory_store() is not None


def required_neighbours(
    mark: MemoryMark, vector: Vector, *, recipe: Recipe, least: float | None, limit: int = 0
) -> list[int]:
    """The keys of the nearest entries in the collection, best first. Raises the errors of the vector store."""
    store = memory_store()
    if store is None:
        return []
    # Twice, for entries that the rows will refuse and for equal ones that are more recent.
    wanted = Wanted(limit=limit or 2 * settings.MEMORY_MAX_CANDIDATES, min_score=least)
    hits = store.query(memory_alias(mark.uuid), Query(vector, recipe), wanted)
    return [int(str(hit.payload["entry"])) for hit in hits]


def indexed_neighbours(mark: MemoryMark, vector: Vector, *, recipe: Recipe, least: float | None) -> list[int]:
    """The same for a turn: none, said in the log, where the collection cannot be asked."""
    try:
        return required_neighbours(mark, vector, recipe=recipe, least=least)
    except ApplicationError as error:
        logger.warning(
            "The collection of the memory of deployment %d cannot be asked (%s): only its latest entries may answer.",
            mark.deployment_id,
            error.code,
        )
        return []


# --- Following the rows ----------------------------------------------------------------------------------------------


def follow_index(shelf: MemoryShelf) -> IndexReport:
    """Write what changed since the collection was last brought to the rows; all of it where that is not known.

    Raises the errors of the vector store; what was written until then is written again by the next call.
    """
    store, recipe = _required_store(), embedder().recipe
    shelf.refresh_from_db()
    reached, target = shelf.indexed_version, shelf.version
    known = shelf.indexed_recipe == recipe_key(recipe) and shelf.purged_version <= reached
    collection = store.resolve_alias(memory_alias(shelf.uuid)) if known else None
    if collection is None:
        return rebuild_index(shelf)
    changed = CachedResponse.objects.filter(deployment_id=shelf.pk, version__gt=reached)
    written, removed = _write(store, collection, shelf, recipe, changed.order_by("pk"))
    gone = DeletedResponse.objects.filter(shelf=shelf, version__gt=reached)
    for keys in batches(gone.values_list("response_id", flat=True).iterator(_BATCH), _BATCH):
        removed += len(keys)
        store.delete(collection, [_point_id(shelf, key) for key in keys])
    # Whoever followed meanwhile may have written over newer points: then the next call goes from where that one began.
    MemoryShelf.objects.filter(pk=shelf.pk, indexed_version=reached, indexed_recipe=recipe_key(recipe)).update(
        indexed_version=target
    )
    return IndexReport(shelf.pk, written, removed)


def rebuild_index(shelf: MemoryShelf) -> IndexReport:
    """Fill a new collection from the rows and let it take over; the old one answers until then.

    Raises the errors of the vector store and leaves the old collection in service.
    """
    store, recipe = _required_store(), embedder().recipe
    shelf.refresh_from_db()
    target, alias = shelf.version, memory_alias(shelf.uuid)
    before = store.resolve_alias(alias)
    collection = f"{alias}_{uuid.uuid4().hex[:12]}"
    try:
        store.ensure(collection, recipe)
        rows = CachedResponse.objects.filter(deployment_id=shelf.pk, status=EntryStatus.VALID)
        written, _none = _write(store, collection, shelf, recipe, rows.order_by("pk"))
        store.point_alias(alias, collection)
    except ApplicationError:
        _drop_quietly(store, collection)
        raise
    MemoryShelf.objects.filter(pk=shelf.pk).update(indexed_version=target, indexed_recipe=recipe_key(recipe))
    if before is not None:
        store.drop(before)
    return IndexReport(shelf.pk, written, rebuilt=True)


def leave_index(shelf: MemoryShelf) -> None:
    """Back to the array; the collection goes."""
    MemoryShelf.objects.filter(pk=shelf.pk).update(indexed_recipe="", indexed_version=0)
    drop_index(shelf.uuid)


def drop_index(shelf: uuid.UUID) -> None:
    """Remove a collection that nobody asks any more; where the store cannot be reached it stays, said in the log."""
    store = memory_store()
    if store is None:
        return
    try:
        if (name := store.resolve_alias(memory_alias(shelf))) is not None:
            store.drop(name)
    except ApplicationError:
        logger.warning("The collection %s could not be removed.", memory_alias(shelf))


def tidy_indexes() -> None:
    """What a worker's timer does every few seconds: have a task follow where there is anything to do."""
    if memory_store() is None:
        return
    counts = not _counted.is_fresh()
    if not counts and not _behind().exists():
        return
    if counts:
        _counted.get(timezone.now)
    # A message that waits longer is overtaken by the next one.
    later = "the collections of the memory follow later"
    ask_worker(FOLLOW_TASK, counts, otherwise=later, expires=settings.JOB_REAP_SECONDS)


def follow_indexes(*, count: bool) -> None:
    """Follow the indexed memories; with `count`, prune them, and index those that grew too large.

    One at a time on the site. An error of the store leaves its memory to the next call.
    """
    if memory_store() is None or not cache.add(_LOCK, True, timeout=INDEX_SECONDS):
        return
    try:
        grown = _prune_and_count() if count else []
        for shelf in [*_behind(), *grown]:
            try:
                follow_index(shelf)
            except ApplicationError as error:
                logger.warning(
                    "The memory of deployment %d could not be indexed (%s); tried again.", shelf.pk, error.code
                )
    finally:
        cache.delete(_LOCK)


def _behind() -> QuerySet[MemoryShelf]:
    key = recipe_key(embedder().recipe)
    other = ~Q(indexed_recipe=key) | Q(version__gt=F("indexed_version"))
    return MemoryShelf.objects.exclude(indexed_recipe="").filter(other)


def repair_index(shelf: MemoryShelf) -> IndexReport:
    """Bring the collection to the rows, and make it anew where it has not as many points as there are entries."""
    report = follow_index(shelf)
    recipe = embedder().recipe
    entries = CachedResponse.objects.filter(
        deployment_id=shelf.pk, status=EntryStatus.VALID, recipe_key=recipe_key(recipe)
    )
    if report.rebuilt or _required_store().count(memory_alias(shelf.uuid)) == entries.count():
        return report
    return rebuild_index(shelf)


def large_memories() -> list[tuple[MemoryShelf, int]]:
    """The memories with more valid entries than `MEMORY_COMFORTABLE_ENTRIES`, each with their number."""
    counted = (
        CachedResponse.objects.filter(status=EntryStatus.VALID)
        .order_by()
        .values("deployment_id")
        .annotate(entries=Count("pk"))
        .filter(entries__gt=settings.MEMORY_COMFORTABLE_ENTRIES)
    )
    sizes = dict(counted.values_list("deployment_id", "entries"))
    shelves = MemoryShelf.objects.filter(pk__in=sizes).select_related("deployment")
    return [(shelf, sizes[shelf.pk]) for shelf in shelves.order_by("pk")]


def _prune_and_count() -> list[MemoryShelf]:
    for shelf in MemoryShelf.objects.exclude(indexed_recipe="").select_related("deployment__agent"):
        # What a lookup in an array does: here none sees the oldest entry.
        config = effective_config(shelf.deployment)
        if prunes_itself(config):
            prune_expired(deployment_id=shelf.pk, max_age_days=kept_days(config))
    return [shelf for shelf, _entries in large_memories() if not shelf.indexed_recipe]


def _required_store() -> VectorStore:
    store = memory_store()
    if store is None:
        raise ValueError("No Qdrant is configured: set QDRANT_URL.")
    return store


def _write(store: VectorStore, collection: str, shelf: MemoryShelf, recipe: Recipe, entries: Any) -> tuple[int, int]:
    """Points of the entries that may answer, and no point of the others; how many of both."""
    key, size = recipe_key(recipe), recipe.dimensions * _FLOAT32.itemsize
    written = removed = 0
    columns = ("pk", "status", "recipe_key", "embedding")
    for rows in batches(entries.values_list(*columns).iterator(_BATCH), _BATCH):
        points, others = [], []
        for pk, status, of_recipe, embedding in rows:
            servable = status == EntryStatus.VALID and of_recipe == key and len(embedding) == size
            if servable:
                row: Vector = np.frombuffer(bytes(embedding), dtype=_FLOAT32)
                points.append(Point(_point_id(shelf, pk), row, {"entry": pk}))
            else:
                others.append(_point_id(shelf, pk))
        if points:
            store.upsert(collection, points)
        if others:
            store.delete(collection, others)
        written, removed = written + len(points), removed + len(others)
    return written, removed


def _point_id(shelf: MemoryShelf, key: int) -> str:
    return str(uuid.uuid5(shelf.uuid, str(key)))


def _drop_quietly(store: VectorStore, collection: str) -> None:
    try:
        store.drop(collection)
    except ApplicationError:
        logger.warning("The unfinished collection %s could not be removed.", collection)
