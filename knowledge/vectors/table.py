"""The embedded vector store: points in Django's database, exact search over a matrix in memory.

Every write is one transaction that locks the collection's row first and gives the rows it writes the next `version`,
which the matrices of all processes follow (`knowledge.vectors.matrix`). A write inside a caller's transaction
joins it, and that transaction sees its own rows. The one backend that touches the ORM: call it where the database may
be used.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from typing import Any, NotRequired, TypedDict

import numpy as np
from django.db import InterfaceError, OperationalError, connection, models, transaction
from django.db.models import Count, Max, Q

from agents.cache import TtlCache
from knowledge.embeddings.base import Recipe
from knowledge.errors import CollectionMissingError, KnowledgeError, VectorStoreUnavailableError
from knowledge.models import VectorCollection, VectorPoint
from knowledge.vectors.base import (
    CollectionInfo,
    Hit,
    PayloadFilter,
    Point,
    Query,
    Vector,
    VectorStore,
    Wanted,
    batches,
    point_uuid,
)
from knowledge.vectors.bm25 import Terms, document_terms, question_terms
from knowledge.vectors.matrix import Followed, FollowedCollections, Snapshot, Uncommitted

#: Deletions are purged this many versions later; a process that missed more loads the collection anew.
TABLE_STORE_PURGE_VERSIONS = 1_000

#: Ids in one `IN (…)`, below SQLite's oldest limit on variables.
_ID_BATCH = 500
#: Rows taken at once from the database while a matrix is loaded.
_LOAD_BATCH = 2_000
_FLOAT32 = np.dtype("<f4")

#: Of a collection at one version, so many payloads are held decoded for five minutes, at 1 to 3 KB each.
_MOST_PAYLOADS = 1_000
_decoded: TtlCache[dict[uuid.UUID, Any]] = TtlCache(300, most=4)
#: The points that a filter keeps, of some collections at one version.
_kept: TtlCache[frozenset[uuid.UUID]] = TtlCache(300, most=16)


class _Batch(TypedDict):
    """Arguments of `Matrix.apply`."""

    keys: Sequence[uuid.UUID]
    rows: Vector
    terms: Sequence[Terms]
    removed: NotRequired[Sequence[uuid.UUID]]


class _Points(Followed[VectorCollection, uuid.UUID, _Batch]):
    def size(self, mark: VectorCollection) -> int:
        return _live(mark).count() if mark.version else 0

    def everything(self, mark: VectorCollection) -> Iterator[_Batch]:
        stored = _live(mark).values_list("point_id", "vector", "terms")
        for batch in batches(stored.iterator(chunk_size=_LOAD_BATCH), _LOAD_BATCH):
            keys, vectors, terms = zip(*batch, strict=True)
            yield {"keys": keys, "rows": _as_rows(vectors, mark), "terms": _as_terms(keys, terms, mark)}

    def changes(self, mark: VectorCollection) -> _Batch:
        rows = VectorPoint.objects.filter(collection_id=mark.pk, version__gt=self.seen)
        found = list(rows.values_list("point_id", "deleted", "vector", "terms"))
        standing = [row for row in found if not row[1]]
        keys = [row[0] for row in standing]
        return {
            "removed": [row[0] for row in found if row[1]],
            "keys": keys,
            "rows": _as_rows([row[2] for row in standing], mark),
            "terms": _as_terms(keys, [row[3] for row in standing], mark),
        }

    def purged(self, mark: VectorCollection) -> int:
        now = VectorCollection.objects.filter(pk=mark.pk).aggregate(at=Max("purged_version"))
        return now["at"] or 0

    def apply(self, rows: _Batch) -> None:
        self.matrix.apply(**rows)


#: One for all instances: two aliases of the table must not hold every vector twice.
_matrices: FollowedCollections[_Points] = FollowedCollections("TABLE_STORE_CACHE_BYTES")


class TableVectorStore(VectorStore):
    uses_database = True

    def ensure(self, collection: str, recipe: Recipe) -> None:
        with _translated(), transaction.atomic():
            named = VectorCollection.objects.select_related("target")
            row, _new = named.get_or_create(name=collection, defaults={"recipe": recipe.as_json()})
            self._require_recipe(collection, Recipe.from_json((row.target or row).recipe), recipe)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        with _writing(collection) as row:
            # The last of several points with one id wins, as if they had been written one after the other.
            last = {point_uuid(point.id): point for point in points}
            recipe = Recipe.from_json(row.recipe)
            vectors = self._unit_rows(collection, recipe, [p.vector for p in last.values()])
            VectorPoint.objects.bulk_create(
                [
                    VectorPoint(
                        collection_id=row.pk,
                        point_id=point_id,
                        version=row.version,
                        payload=dict(point.payload),
                        terms=document_terms(point.payload).to_bytes(),
                        vector=vector.astype(_FLOAT32).tobytes(),
                    )
                    for (point_id, point), vector in zip(last.items(), vectors, strict=True)
                ],
                update_conflicts=True,
                unique_fields=["collection", "point_id"],
                update_fields=["version", "deleted", "payload", "terms", "vector"],
            )

    def query(self, collection: str, query: Query, wanted: Wanted) -> list[Hit]:
        with _translated():
            row = _collection(collection)
            self._require_recipe(collection, Recipe.from_json(row.recipe), query.recipe)
            asked = self._unit_rows(collection, query.recipe, [query.vector])[0]
            found = _snapshot(row).top(
                asked,
                limit=wanted.limit,
                only=_ids_matching(row, wanted.payload_filter) if wanted.payload_filter else None,
                question=None if wanted.lexical_weight is None else question_terms(query.text),
                lexical_weight=wanted.lexical_weight or 0.0,
            )
            return _hits(row, [hit for hit in found if wanted.min_score is None or hit[1] >= wanted.min_score])

    def fetch(self, collection: str, ids: Sequence[str]) -> dict[str, Point]:
        with _translated():
            row = _collection(collection)
            wanted = {point_uuid(point_id) for point_id in ids}
            return {
                point.id: point
                for batch in batches(wanted, _ID_BATCH)
                for point in _points(_live(row).filter(point_id__in=batch))
            }

    def scroll(self, collection: str, *, batch_size: int = 500) -> Iterator[list[Point]]:
        with _translated():
            row = _collection(collection)
        return _scrolled(row, batch_size)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        with _writing(collection) as row:
            for batch in batches({point_uuid(point_id) for point_id in ids}, _ID_BATCH):
                stored = VectorPoint.objects.filter(collection_id=row.pk, point_id__in=batch)
                stored.filter(deleted=False).update(
                    deleted=True, vector=b"", payload={}, terms=None, version=row.version
                )

    def ids_where(self, collection: str, payload_filter: PayloadFilter) -> list[str]:
        with _translated():
            return [str(found) for found in _matching(_collection(collection), payload_filter)]

    def count(self, collection: str) -> int:
        with _translated():
            return _live(_collection(collection)).count()

    def info(self, collection: str) -> CollectionInfo:
        with _translated():
            row = _collection(collection)
            aliases = VectorCollection.objects.filter(target_id=row.pk).order_by("name")
            names = tuple(aliases.values_list("name", flat=True))
            return CollectionInfo(row.name, Recipe.from_json(row.recipe), _live(row).count(), names)

    def collections(self) -> list[CollectionInfo]:
        with _translated():
            sizes = dict(
                VectorPoint.objects.filter(deleted=False).values_list("collection").annotate(points=Count("pk"))
            )
            rows = VectorCollection.objects.filter(target=None).order_by("name").prefetch_related("aliases")
            return [
                CollectionInfo(
                    name=row.name,
                    recipe=Recipe.from_json(row.recipe),
                    points=sizes.get(row.pk, 0),
                    aliases=tuple(sorted(alias.name for alias in row.aliases.all())),
                )
                for row in rows
            ]

    def point_alias(self, alias: str, collection: str) -> None:
        with _translated(), transaction.atomic():
            if VectorCollection.objects.filter(name=alias, target=None).exists():
                raise KnowledgeError(f"{alias!r} is a collection and cannot be an alias.")
            VectorCollection.objects.update_or_create(name=alias, defaults={"target_id": _collection(collection).pk})

    def resolve_alias(self, alias: str) -> str | None:
        with _translated():
            names = VectorCollection.objects.filter(name=alias, target__isnull=False)
            return names.values_list("target__name", flat=True).first()

    def remove_alias(self, alias: str) -> None:
        with _translated():
            VectorCollection.objects.filter(name=alias, target__isnull=False).delete()

    def drop(self, collection: str) -> None:
        with _translated(), transaction.atomic():
            # The lock first, as every writer does, so that the two never wait for each other.
            with suppress(CollectionMissingError):
                _collection(collection, lock=True).delete()

    def ping(self) -> None:
        with _translated(), connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def _collection(name: str, *, lock: bool = False) -> VectorCollection:
    """The collection of this name or alias."""
    try:
        named = VectorCollection.objects.select_related("target").get(name=name)
        found = named.target or named
        return VectorCollection.objects.select_for_update().get(pk=found.pk) if lock else found
    except VectorCollection.DoesNotExist as error:
        raise CollectionMissingError(f"There is no collection or alias {name!r}.") from error


def _live(row: VectorCollection) -> models.QuerySet[VectorPoint]:
    return VectorPoint.objects.filter(collection_id=row.pk, deleted=False)


def _points(rows: models.QuerySet[VectorPoint]) -> list[Point]:
    return [
        Point(str(point_id), np.frombuffer(vector, dtype=_FLOAT32).astype(np.float32), payload)
        for point_id, vector, payload in rows.values_list("point_id", "vector", "payload")
    ]


def _scrolled(row: VectorCollection, batch_size: int) -> Iterator[list[Point]]:
    rows = page = _live(row).order_by("point_id")
    while True:
        with _translated():
            batch = _points(page[:batch_size])
        if batch:
            yield batch
        if len(batch) < batch_size:
            return
        page = rows.filter(point_id__gt=batch[-1].id)


def _hits(row: VectorCollection, found: Sequence[tuple[uuid.UUID, float, float]]) -> list[Hit]:
    """The found points with their payloads; one that was deleted a moment ago is left out, unless its payload is held."""
    # What this transaction wrote may be rolled back.
    held = {} if Uncommitted.covers(row.uuid) else _decoded.get(dict, (row.uuid, row.version))
    payloads = held | _payloads(row, [key for key, *_scores in found if key not in held])
    if len(payloads) <= _MOST_PAYLOADS:
        held.update(payloads)
    return [Hit(str(key), score, payloads[key], overlap) for key, score, overlap in found if key in payloads]


def _payloads(row: VectorCollection, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, Any]:
    found: dict[uuid.UUID, Any] = {}
    for batch in batches(keys, _ID_BATCH):
        found.update(_live(row).filter(point_id__in=batch).values_list("point_id", "payload"))
    return found


def _ids_matching(row: VectorCollection, payload_filter: PayloadFilter) -> frozenset[uuid.UUID]:
    """The points that a filter keeps at this version; those of what this transaction wrote are not held."""

    def read() -> frozenset[uuid.UUID]:
        return frozenset(_matching(row, payload_filter))

    # Not by the filter itself: of two conditions, True and 1 are equal.
    return read() if Uncommitted.covers(row.uuid) else _kept.get(read, (row.uuid, row.version, repr(payload_filter)))


def _matching(row: VectorCollection, payload_filter: PayloadFilter) -> Iterator[uuid.UUID]:
    rows = _live(row)
    if not payload_filter:
        yield from rows.values_list("point_id", flat=True)
        return
    # The database gives "1" and 1 alike; what it finds is compared again.
    rows = rows.filter(*(Q((f"payload__{each.key}", each.value)) for each in payload_filter.all_of))
    either = [Q((f"payload__{each.key}", each.value)) for each in payload_filter.any_of]
    rows = rows.filter(reduce(or_, either, Q()))
    for point_id, payload in rows.values_list("point_id", "payload").iterator(chunk_size=_LOAD_BATCH):
        if payload_filter.matches(payload):
            yield point_id


def _snapshot(row: VectorCollection) -> Snapshot[uuid.UUID]:
    """The matrix at `row` or later; after a writing in this transaction, all points anew."""

    def empty() -> _Points:
        return _Points(row.recipe["dimensions"])

    own = Uncommitted.covers(row.uuid)
    points = empty() if own else _matrices.get(row.uuid, empty)
    with points.lock:
        changed = points.follow(row)
        snapshot = points.matrix.snapshot()
    if changed and not own:
        _matrices.trim()
    return snapshot


def _as_terms(
    keys: Sequence[uuid.UUID], stored: Sequence[bytes | memoryview | None], row: VectorCollection
) -> list[Terms]:
    """The words of rows; those of a row that has none stored are made from its payload."""
    missing = [key for key, terms in zip(keys, stored, strict=True) if terms is None]
    payloads = _payloads(row, missing)
    return [
        document_terms(payloads.get(key, {})) if terms is None else Terms.from_bytes(terms)
        for key, terms in zip(keys, stored, strict=True)
    ]


def _as_rows(vectors: Sequence[bytes | memoryview], row: VectorCollection) -> Vector:
    flat = np.frombuffer(b"".join(vectors), dtype=_FLOAT32)
    return flat.reshape(len(vectors), row.recipe["dimensions"])


@contextmanager
def _writing(collection: str) -> Iterator[VectorCollection]:
    """A transaction that holds the collection's lock; the row it gives carries the version to write."""
    with _translated(), transaction.atomic():
        row = _collection(collection, lock=True)
        row.version += 1
        Uncommitted.mark(row.uuid)
        yield row
        _purge(row)
        row.save(update_fields=["version", "purged_version"])


def _purge(row: VectorCollection) -> None:
    """Now and then, remove for good what was deleted so long ago that living matrices have seen it."""
    every = TABLE_STORE_PURGE_VERSIONS
    if row.version % every:
        return
    old = VectorPoint.objects.filter(collection_id=row.pk, deleted=True, version__lte=row.version - every)
    newest = old.aggregate(at=Max("version"))["at"]
    if newest is not None:
        row.purged_version = newest
        old.delete()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise VectorStoreUnavailableError(f"The database failed: {error}") from error
