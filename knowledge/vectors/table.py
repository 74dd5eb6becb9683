"""The embedded vector store: points in Django's database, exact search over a matrix in memory.

Every write is one transaction that locks the collection's row first and gives the rows it writes the next `version`,
which the matrices of all processes follow (`knowledge.vectors.matrix`). A write inside a caller's transaction
joins it, and that transaction sees its own rows. The one backend that touches the ORM: call it where the database may
be used.
"""

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from django.db import InterfaceError, OperationalError, connection, models, transaction
from django.db.models import Count, Max, Q
from django.utils.translation import gettext as _

from knowledge.embeddings.base import Recipe
from knowledge.errors import CollectionMissingError, KnowledgeError, VectorStoreUnavailableError
from knowledge.models import VectorCollection, VectorPoint
from knowledge.vectors.base import (
    CollectionInfo,
    Condition,
    Hit,
    Json,
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
from knowledge.vectors.matrix import NEVER, Followed, FollowedCollections, Snapshot, Uncommitted

#: Above this many points in one collection the table store says that Qdrant is the store for growth.
TABLE_STORE_COMFORTABLE_POINTS = 100_000
#: Deletions are purged this many versions later; a process that missed more loads the collection anew.
TABLE_STORE_PURGE_VERSIONS = 1_000

logger = logging.getLogger(__name__)

#: Ids in one `IN (…)`, below SQLite's oldest limit on variables.
_ID_BATCH = 500
#: Rows taken at once from the database while a matrix is loaded.
_LOAD_BATCH = 2_000
_FLOAT32 = np.dtype("<f4")


#: Payloads of one collection that are remembered, at 1 to 3 KB each.
_MOST_PAYLOADS = 2_000


@dataclass(frozen=True, slots=True)
class _State:
    pk: int
    uuid: uuid.UUID
    name: str
    recipe: Recipe
    version: int
    purged_version: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """Points of a collection: which ids are gone, and what stands."""

    removed: Sequence[uuid.UUID]
    keys: Sequence[uuid.UUID]
    vectors: Vector
    columns: dict[str, list[Json]]
    terms: list[Terms]


class _Points(Followed[_State, uuid.UUID, _Rows]):
    #: What committed points say, of those found lately, and the version of the collection at which it was read.
    payloads: tuple[int, dict[uuid.UUID, Any]] = (NEVER, {})

    def size(self, mark: _State) -> int:
        return _live(mark).count() if mark.version else 0

    def everything(self, mark: _State) -> Iterator[_Rows]:
        stored = _live(mark).values_list("point_id", "vector", "terms")
        for batch in batches(stored.iterator(chunk_size=_LOAD_BATCH), _LOAD_BATCH):
            keys, vectors, terms = zip(*batch, strict=True)
            yield _Rows([], keys, _as_rows(vectors, mark), {}, _as_terms(keys, terms, mark))

    def changes(self, mark: _State) -> _Rows:
        rows = VectorPoint.objects.filter(collection_id=mark.pk, version__gt=self.seen)
        found = list(rows.values_list("point_id", "deleted", "vector", "terms", "payload"))
        standing = [row for row in found if not row[1]]
        keys = [row[0] for row in standing]
        return _Rows(
            removed=[row[0] for row in found if row[1]],
            keys=keys,
            vectors=_as_rows([row[2] for row in standing], mark),
            columns={name: [row[4].get(name) for row in standing] for name in self.matrix.column_keys},
            terms=_as_terms(keys, [row[3] for row in standing], mark),
        )

    def purged(self, mark: _State) -> int:
        now = VectorCollection.objects.filter(pk=mark.pk).aggregate(at=Max("purged_version"))
        return now["at"] or 0

    def apply(self, rows: _Rows) -> None:
        self.matrix.apply(
            keys=rows.keys, rows=rows.vectors, removed=rows.removed, columns=rows.columns, terms=rows.terms
        )

    def ensure_columns(self, mark: _State, names: Collection[str]) -> bool:
        """Hold these fields of every point; whether one had to be read."""
        missing = [name for name in sorted(names) if name not in self.matrix.column_keys]
        if not missing:
            return False
        # Values may be newer than the matrix; the version that brought them is read next and sets both right.
        found: dict[str, dict[uuid.UUID, Json]] = {name: {} for name in missing}
        for point_id, payload in _live(mark).values_list("point_id", "payload").iterator(chunk_size=_LOAD_BATCH):
            for name in missing:
                found[name][point_id] = payload.get(name)
        for name, values in found.items():
            self.matrix.add_column(name, values)
        return True


#: One for all instances: two aliases of the table must not hold every vector twice.
_matrices: FollowedCollections[_Points] = FollowedCollections("TABLE_STORE_CACHE_BYTES")


class TableVectorStore(VectorStore):
    uses_database = True

    def ensure(self, collection: str, recipe: Recipe) -> None:
        with _translated(), transaction.atomic():
            state = _find(collection)
            if state is None:
                VectorCollection.objects.get_or_create(name=collection, defaults={"recipe": recipe.as_json()})
                state = _state(collection)
            self._require_recipe(collection, state.recipe, recipe)

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
            state = _state(collection)
            self._require_recipe(collection, state.recipe, query.recipe)
            asked = self._unit_rows(collection, query.recipe, [query.vector])[0]
            keys = wanted.payload_filter.keys if wanted.payload_filter else frozenset()
            if wanted.lexical_weight is not None and wanted.together is not None:
                keys |= {wanted.together.group, wanted.together.kind}
            found = _snapshot(state, keys).top(
                asked,
                limit=wanted.limit,
                payload_filter=wanted.payload_filter,
                question=None if wanted.lexical_weight is None else question_terms(query.text),
                lexical_weight=wanted.lexical_weight or 0.0,
                together=None if wanted.lexical_weight is None else wanted.together,
            )
            least = -2.0 if wanted.min_score is None else wanted.min_score
            return _hits(state, [hit for hit in found if hit[1] >= least])

    def fetch(self, collection: str, ids: Sequence[str]) -> dict[str, Point]:
        with _translated():
            state = _state(collection)
            wanted = {point_uuid(point_id) for point_id in ids}
            return {
                point.id: point
                for batch in batches(wanted, _ID_BATCH)
                for point in _points(_live(state).filter(point_id__in=batch))
            }

    def scroll(self, collection: str, *, batch_size: int = 500) -> Iterator[list[Point]]:
        with _translated():
            state = _state(collection)
        return _scrolled(state, batch_size)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        with _writing(collection) as row:
            for batch in batches({point_uuid(point_id) for point_id in ids}, _ID_BATCH):
                stored = VectorPoint.objects.filter(collection_id=row.pk, point_id__in=batch)
                stored.filter(deleted=False).update(
                    deleted=True, vector=b"", payload={}, terms=None, version=row.version
                )

    def ids_where(self, collection: str, payload_filter: PayloadFilter) -> list[str]:
        with _translated():
            return [str(found) for found in _matching(_state(collection), payload_filter)]

    def count(self, collection: str, payload_filter: PayloadFilter | None = None) -> int:
        with _translated():
            state = _state(collection)
            if not payload_filter:
                return _live(state).count()
            return sum(1 for _id in _matching(state, payload_filter))

    def info(self, collection: str) -> CollectionInfo:
        with _translated():
            state = _state(collection)
            aliases = VectorCollection.objects.filter(target_id=state.pk).order_by("name")
            names = tuple(aliases.values_list("name", flat=True))
            return CollectionInfo(state.name, state.recipe, _live(state).count(), names)

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
            VectorCollection.objects.update_or_create(name=alias, defaults={"target_id": _state(collection).pk})

    def resolve_alias(self, alias: str) -> str | None:
        with _translated():
            names = VectorCollection.objects.filter(name=alias, target__isnull=False)
            return names.values_list("target__name", flat=True).first()

    def remove_alias(self, alias: str) -> None:
        with _translated():
            VectorCollection.objects.filter(name=alias, target__isnull=False).delete()

    def drop(self, collection: str) -> None:
        with _translated(), transaction.atomic():
            state = _find(collection)
            if state is not None:
                # The lock first, as every writer does, so that the two never wait for each other.
                list(VectorCollection.objects.select_for_update().filter(pk=state.pk))
                VectorCollection.objects.filter(pk=state.pk).delete()

    def ping(self) -> None:
        with _translated(), connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    def advice(self) -> list[str]:
        return [
            _(
                "La collection %(name)s compte %(points)d points ; au-delà de %(limit)d, installez Qdrant "
                "(QDRANT_URL) puis lancez migrate_vectors --from table --to qdrant."
            )
            % {"name": info.name, "points": info.points, "limit": TABLE_STORE_COMFORTABLE_POINTS}
            for info in self.collections()
            if info.points > TABLE_STORE_COMFORTABLE_POINTS
        ]


# Reading collections.


def _find(collection: str) -> _State | None:
    """The collection of this name or alias, in one query."""
    aliased = VectorCollection.objects.filter(name=collection).values("target")
    found = VectorCollection.objects.filter(Q(name=collection) | Q(pk__in=aliased), target=None).order_by()
    columns = ("pk", "uuid", "name", "recipe", "version", "purged_version")
    for pk, identity, name, recipe, version, purged_version in found.values_list(*columns):
        return _State(pk, identity, name, Recipe.from_json(recipe), version, purged_version)
    return None


def _state(collection: str) -> _State:
    state = _find(collection)
    if state is None:
        raise CollectionMissingError(f"There is no collection or alias {collection!r}.")
    return state


def _live(state: _State) -> models.QuerySet[VectorPoint]:
    return VectorPoint.objects.filter(collection_id=state.pk, deleted=False)


def _points(rows: models.QuerySet[VectorPoint]) -> list[Point]:
    return [
        Point(str(point_id), np.frombuffer(vector, dtype=_FLOAT32).astype(np.float32), payload)
        for point_id, vector, payload in rows.values_list("point_id", "vector", "payload")
    ]


def _scrolled(state: _State, batch_size: int) -> Iterator[list[Point]]:
    rows = page = _live(state).order_by("point_id")
    while True:
        with _translated():
            batch = _points(page[:batch_size])
        if batch:
            yield batch
        if len(batch) < batch_size:
            return
        page = rows.filter(point_id__gt=batch[-1].id)


def _hits(state: _State, found: Sequence[tuple[uuid.UUID, float, float]]) -> list[Hit]:
    """The found points with their payloads; one that was deleted a moment ago is left out."""
    keys = [key for key, *_scores in found]
    own = Uncommitted.covers(state.uuid)
    payloads = _payloads(state, keys) if own else _committed_payloads(state, keys)
    return [Hit(str(key), score, payloads[key], overlap) for key, score, overlap in found if key in payloads]


def _committed_payloads(state: _State, keys: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, Any]:
    """Cached while the collection stands at one version: a read that is later than its mark is no older than it."""
    points = _kept(state)
    version, known = points.payloads
    if version != state.version or len(known) > _MOST_PAYLOADS:
        version, known = points.payloads = state.version, {}
    known.update(_payloads(state, [key for key in keys if key not in known]))
    return known


def _payloads(state: _State, keys: Sequence[uuid.UUID]) -> dict[uuid.UUID, Any]:
    found: dict[uuid.UUID, Any] = {}
    for batch in batches(keys, _ID_BATCH):
        found.update(_live(state).filter(point_id__in=batch).values_list("point_id", "payload"))
    return found


def _matching(state: _State, payload_filter: PayloadFilter) -> Iterator[uuid.UUID]:
    rows = _live(state)
    if not payload_filter:
        yield from rows.values_list("point_id", flat=True)
        return
    # The database gives "1" and 1 alike; what it finds is compared again.
    for condition in payload_filter.all_of:
        rows = rows.filter(_holds(condition))
    if payload_filter.any_of:
        rows = rows.filter(reduce(or_, map(_holds, payload_filter.any_of)))
    for point_id, payload in rows.values_list("point_id", "payload").iterator(chunk_size=_LOAD_BATCH):
        if payload_filter.matches(payload):
            yield point_id


def _holds(condition: Condition) -> Q:
    return Q(**{f"payload__{condition.key}": condition.value})


# Following the committed state.


def _kept(state: _State) -> _Points:
    return _matrices.get(state.uuid, lambda: _Points(state.recipe.dimensions))


def _snapshot(state: _State, keys: Collection[str]) -> Snapshot[uuid.UUID]:
    """The matrix at `state` or later, with the columns `keys`; after a writing in this transaction, all rows anew."""
    own = Uncommitted.covers(state.uuid)
    points = _Points(state.recipe.dimensions) if own else _kept(state)
    with points.lock:
        changed = points.follow(state)
        changed |= points.ensure_columns(state, keys)
        snapshot = points.matrix.snapshot()
    if changed and not own:
        _matrices.trim()
    return snapshot


def _as_terms(keys: Sequence[uuid.UUID], stored: Sequence[bytes | memoryview | None], state: _State) -> list[Terms]:
    """The words of rows; those of a row that has none stored are made from its payload."""
    missing = [key for key, terms in zip(keys, stored, strict=True) if terms is None]
    payloads = _payloads(state, missing)
    return [
        document_terms(payloads.get(key, {})) if terms is None else Terms.from_bytes(terms)
        for key, terms in zip(keys, stored, strict=True)
    ]


def _as_rows(vectors: Sequence[bytes | memoryview], state: _State) -> Vector:
    flat = np.frombuffer(b"".join(vectors), dtype=_FLOAT32)
    return flat.reshape(len(vectors), state.recipe.dimensions)


# Writing.


@contextmanager
def _writing(collection: str) -> Iterator[VectorCollection]:
    """A transaction that holds the collection's lock; the row it gives carries the version to write."""
    with _translated(), transaction.atomic():
        state = _state(collection)
        row = VectorCollection.objects.select_for_update().filter(pk=state.pk).first()
        if row is None:
            raise CollectionMissingError(f"Collection {collection!r} has just been dropped.")
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
