"""The entries that may answer, as one array a deployment in this process, which follows the database.

A memory's version is all that has to be read to know whether the array is up to date
(`knowledge.vectors.matrix`). A transaction that has written to a memory reads it whole and leaves no trace here.

An array says which entries are near. Whether one is served is decided again on its row (`faqs.recall`).
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Q, QuerySet
from django.db.models.functions import MD5

from agents.models import Audience, Deployment
from faqs.memory import audience_key, recipe_key
from faqs.models import CachedResponse, DeploymentMemory, EntryStatus, WrongPair
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector, batches
from knowledge.vectors.matrix import Followed, FollowedCollections, Uncommitted

#: Rows taken at once from the database while an array is loaded.
_LOAD_BATCH = 2_000
_FLOAT32 = np.dtype("<f4")
_NONE_WRONG: frozenset[str] = frozenset()
_COLUMNS = (
    "pk",
    "version",
    "status",
    "recipe_key",
    "question",
    "audience",
    "created_at",
    "confirmed_at",
    "review_on",
    "is_scoped",
    "embedding",
)
_EMBEDDING = _COLUMNS.index("embedding")

#: Sorts equal similarities by the most recent entry first.
EntryKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MemoryMark:
    """The version of a deployment's memory, and its current audience."""

    deployment_id: int
    uuid: uuid.UUID
    version: int
    purged_version: int
    audience: str


class Held(NamedTuple):
    """The fields of an entry that an array caches beside its vector; they hold for the entry's `version`.

    `wrong`: the questions for which the entry was reported, as `question_hash`.
    """

    pk: int
    key: EntryKey
    version: int
    question: str
    audience: str
    confirmed_at: float
    review_on: date | None
    wrong: frozenset[str]
    is_scoped: bool = False


def memory_mark(deployment: Deployment) -> MemoryMark | None:
    """The mark of a deployment that was loaded with its `memory`: no query, but for a group's audience.

    `None`: nothing was ever learned here.
    """
    memory = getattr(deployment, "memory", None)
    if memory is None or not memory.version:
        return None
    return MemoryMark(
        deployment_id=deployment.pk,
        uuid=memory.uuid,
        version=memory.version,
        purged_version=memory.purged_version,
        audience=current_audience(deployment),
    )


def stored_mark(deployment_id: int) -> MemoryMark | None:
    """The mark of a deployment, read anew: one query, two for a group's audience."""
    marks = DeploymentMemory.objects.filter(deployment=deployment_id, version__gt=0)
    found = marks.values_list("uuid", "version", "purged_version", "deployment__audience").first()
    if found is None:
        return None
    identity, version, purged_version, audience = found
    groups: Iterable[int] = ()
    if audience == Audience.GROUPS:
        members = Deployment.groups.through._default_manager.filter(deployment_id=deployment_id)
        groups = members.values_list("group_id", flat=True)
    return MemoryMark(
        deployment_id=deployment_id,
        uuid=identity,
        version=version,
        purged_version=purged_version,
        audience=audience_key(audience, groups),
    )


def current_audience(deployment: Deployment) -> str:
    if deployment.audience != Audience.GROUPS:
        return audience_key(deployment.audience)
    return audience_key(deployment.audience, deployment.groups.values_list("pk", flat=True))


@dataclass(frozen=True, slots=True)
class Nearest:
    """One reading of an array: the nearest entries, best first, and the age of the oldest of all."""

    found: list[tuple[Held, float]]
    oldest: float


class _Entries(NamedTuple):
    """Changes of a memory: the keys of changed entries, and the rows of those that may answer."""

    removed: Iterable[int]
    rows: Sequence[tuple[Any, ...]]
    wrong: Mapping[int, frozenset[str]]


class _Array(Followed[MemoryMark, EntryKey, _Entries]):
    """The entries of one memory and one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe.dimensions)
        self.recipe_key = recipe_key(recipe)
        self.held: dict[int, Held] = {}
        self._oldest: float | None = None

    @property
    def oldest(self) -> float:
        """When the oldest entry was last confirmed, in seconds; infinite where there is none."""
        if self._oldest is None:
            self._oldest = min((held.confirmed_at for held in self.held.values()), default=float("inf"))
        return self._oldest

    def size(self, mark: MemoryMark) -> int:
        return self._servable(mark).count()

    def everything(self, mark: MemoryMark) -> Iterator[_Entries]:
        self.held, self._oldest = {}, None
        wrong = _wrong_questions(response__deployment_id=mark.deployment_id)
        rows = self._servable(mark).values_list(*_COLUMNS).iterator(chunk_size=_LOAD_BATCH)
        for batch in batches(rows, _LOAD_BATCH):
            yield _Entries((), batch, wrong)

    def changes(self, mark: MemoryMark) -> _Entries:
        written = CachedResponse.objects.filter(deployment=mark.deployment_id, version__gt=self.seen)
        rows = list(written.order_by().values_list(*_COLUMNS))
        servable = [row for row in rows if row[2] == EntryStatus.VALID and row[3] == self.recipe_key]
        wrong = _wrong_questions(response_id__in=[row[0] for row in servable]) if servable else {}
        return _Entries([row[0] for row in rows], servable, wrong)

    def purged(self, mark: MemoryMark) -> int:
        memory = DeploymentMemory.objects.filter(deployment=mark.deployment_id)
        return memory.values_list("purged_version", flat=True).first() or 0

    def apply(self, rows: _Entries) -> None:
        # A row whose vector was damaged from outside is left out rather than taken for another.
        dimensions = self.matrix.dimensions
        size = dimensions * _FLOAT32.itemsize
        good = [row for row in rows.rows if len(row[_EMBEDDING]) == size]
        fresh = [_held(row, rows.wrong.get(row[0], _NONE_WRONG)) for row in good]
        vectors = np.frombuffer(b"".join(row[_EMBEDDING] for row in good), dtype=_FLOAT32)
        before = [held.key for pk in rows.removed if (held := self.held.pop(pk, None)) is not None]
        self.matrix.apply(
            keys=[held.key for held in fresh], rows=vectors.reshape(len(good), dimensions), removed=before
        )
        self.held.update({held.pk: held for held in fresh})
        self._oldest = None

    def nearest(self, vector: Vector, *, limit: int, least: float | None) -> Nearest:
        snapshot = self.matrix.snapshot()
        found = snapshot.top(vector, limit=limit)
        return Nearest(
            found=[
                (held, score)
                for key, score, _overlap in found
                # Another thread may have followed a later version meanwhile.
                if (least is None or score >= least) and (held := self.held.get(-key[1])) is not None
            ],
            oldest=self.oldest,
        )

    def _servable(self, mark: MemoryMark) -> QuerySet[CachedResponse]:
        return CachedResponse.objects.filter(
            deployment_id=mark.deployment_id, recipe_key=self.recipe_key, status=EntryStatus.VALID
        )


def _held(row: tuple[Any, ...], wrong: frozenset[str]) -> Held:
    pk, version, _status, _recipe, question, audience, created_at, confirmed_at, *rest = row
    review_on, is_scoped, _embedding = rest
    key, confirmed = entry_key(pk, created_at), confirmed_at.timestamp()
    return Held(pk, key, version, question, audience, confirmed, review_on, wrong, is_scoped)


def _wrong_questions(**entries: Any) -> dict[int, frozenset[str]]:
    """The questions that entries were reported for, unless the reported answer has been replaced since."""
    still = Q(answer_digest="") | Q(answer_digest=MD5("response__answer"))
    found: dict[int, set[str]] = {}
    for pk, asked in WrongPair.objects.filter(still, **entries).values_list("response_id", "question_hash"):
        found.setdefault(pk, set()).add(asked)
    return {pk: frozenset(asked) for pk, asked in found.items()}


def entry_key(pk: int, created_at: datetime) -> EntryKey:
    return (-int(created_at.timestamp() * 1_000_000), -pk)


_arrays: FollowedCollections[_Array] = FollowedCollections("MEMORY_CACHE_BYTES")


def _array(mark: MemoryMark, recipe: Recipe) -> _Array:
    """The cached array of this process, or a new one for a transaction that has written to the memory."""
    if Uncommitted.covers(mark.uuid):
        return _Array(recipe)
    return _arrays.get((mark.uuid, recipe_key(recipe)), lambda: _Array(recipe))


def is_known_empty(mark: MemoryMark, recipe: Recipe) -> bool:
    """Whether this process has seen, at this mark, that no entry may answer. Touches no database."""
    array = _arrays.held((mark.uuid, recipe_key(recipe)))
    return array is not None and array.seen >= mark.version and not array.held


def nearest_entries(mark: MemoryMark, vector: Vector, *, recipe: Recipe, limit: int, least: float | None) -> Nearest:
    """Return the entries nearest to a unit vector, best first, the most recent of equals before the others."""
    array = _array(mark, recipe)
    with array.lock:
        changed = array.follow(mark)
        nearest = array.nearest(vector, limit=limit, least=least) if changed else None
    if nearest is None:
        return array.nearest(vector, limit=limit, least=least)
    _arrays.trim()
    return nearest
