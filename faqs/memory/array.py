"""The entries that may answer, as one array a deployment in this process, which follows the database.

A shelf's version is all that has to be read to know whether the array is up to date; what changed is then read by
version, and nothing else. Arrays hold committed rows only. A transaction that has written to a shelf reads it whole
and leaves no trace here: rolled back, its versions will be given to other rows.

An array says which entries are near. Whether one is served is decided again on its row (`faqs.recall`).
"""

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import MD5

from agents.models import Audience, Deployment
from agents.statements import PreparedSelect, parameter
from faqs.memory.keys import audience_key, recipe_key
from faqs.models import CachedResponse, DeletedResponse, EntryStatus, MemoryShelf, WrongPair
from knowledge.embeddings.base import Recipe
from knowledge.vectors.base import Vector
from knowledge.vectors.similarity import Matrix, Snapshot

logger = logging.getLogger(__name__)

#: Rows taken at once from the database while an array is loaded.
_LOAD_BATCH = 2_000
_FLOAT32 = np.dtype("<f4")
_NEVER = -1
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

_MARK = PreparedSelect(
    lambda: MemoryShelf.objects.filter(
        deployment=parameter(MemoryShelf, "deployment"), version__gt=0
    ).values_list(
        "uuid",
        "version",
        "purged_version",
        "indexed_version",
        "indexed_recipe",
        "deployment__audience",
    )
)

#: Sorts equal similarities by the most recent entry first.
EntryKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MemoryMark:
    """Where a deployment's memory stands, and who may ask now."""

    deployment_id: int
    uuid: uuid.UUID
    version: int
    purged_version: int
    audience: str
    #: Where the memory is looked up in a collection: the version that has reached, and the key of its recipe.
    indexed_version: int = 0
    indexed_recipe: str = ""


class Held(NamedTuple):
    """What an array keeps of an entry beside its vector: what is true of its row as long as the version is.

    `wrong` are the questions that it was reported for, as `question_hash`.
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
    shelf = getattr(deployment, "memory", None)
    if shelf is None or not shelf.version:
        return None
    return MemoryMark(
        deployment_id=deployment.pk,
        uuid=shelf.uuid,
        version=shelf.version,
        purged_version=shelf.purged_version,
        audience=current_audience(deployment),
        indexed_version=shelf.indexed_version,
        indexed_recipe=shelf.indexed_recipe,
    )


def stored_mark(deployment_id: int) -> MemoryMark | None:
    """The mark of a deployment, read anew: one query, two for a group's audience."""
    found = _MARK.rows(deployment=deployment_id)
    if not found:
        return None
    ((identity, version, purged_version, indexed_version, indexed_recipe, audience),) = found
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
        indexed_version=indexed_version,
        indexed_recipe=indexed_recipe,
    )


def current_audience(deployment: Deployment) -> str:
    if deployment.audience != Audience.GROUPS:
        return audience_key(deployment.audience)
    return audience_key(deployment.audience, deployment.groups.values_list("pk", flat=True))


@dataclass(frozen=True, slots=True)
class Nearest:
    """One reading of an array: the nearest entries, best first, and the age of the oldest of all."""

    found: list[tuple[Held, float]]
    entries: int
    oldest: float


class _Array:
    """The entries of one shelf and one recipe, and the version they have reached; changed under the lock.

    One that begins after a version (`after`) holds what was written since, and is never loaded whole: the others are
    in a collection.
    """

    def __init__(self, dimensions: int, *, after: int | None = None) -> None:
        self.lock = threading.Lock()
        self.matrix: Matrix[EntryKey] = Matrix(dimensions)
        self.held: dict[int, Held] = {}
        self.is_tail = after is not None
        self.seen = _NEVER if after is None else after
        self._oldest: float | None = None

    @property
    def oldest(self) -> float:
        """When the oldest entry was last confirmed, in seconds; infinite where there is none."""
        if self._oldest is None:
            times = (held.confirmed_at for held in self.held.values())
            self._oldest = min(times, default=float("inf"))
        return self._oldest

    def follow(self, mark: MemoryMark, key: str) -> bool:
        """Bring the array to the mark's version; `False` where it is there already."""
        if self.seen >= mark.version:
            return False
        if self.is_tail:
            # A deletion that was forgotten leaves an entry here that its row refuses.
            self._advance(mark, key)
        elif self.seen == _NEVER or self.seen < mark.purged_version or not self._advance(mark, key):
            self._load(mark, key)
        self.seen = mark.version
        self._oldest = None
        return True

    def _advance(self, mark: MemoryMark, key: str) -> bool:
        rows = list(
            CachedResponse.objects.filter(
                deployment_id=mark.deployment_id, version__gt=self.seen
            ).values_list(*_COLUMNS)
        )
        gone = list(
            DeletedResponse.objects.filter(
                shelf_id=mark.deployment_id, version__gt=self.seen
            ).values_list("response_id", flat=True)
        )
        purged = MemoryShelf.objects.filter(pk=mark.deployment_id).values_list(
            "purged_version", flat=True
        )
        # Asked after the rows were read: a purge in between may have taken deletions out of them.
        if not self.is_tail and (purged.first() or 0) > self.seen:
            return False
        servable = [row for row in rows if _is_servable(row, key)]
        changed = [*gone, *(row[0] for row in rows)]
        removed = [held.key for pk in changed if (held := self.held.pop(pk, None)) is not None]
        self._put(servable, removed, _wrong_questions(response_id__in=[row[0] for row in servable]))
        return True

    def _load(self, mark: MemoryMark, key: str) -> None:
        rows = CachedResponse.objects.filter(
            deployment_id=mark.deployment_id, recipe_key=key, status=EntryStatus.VALID
        )
        self.matrix = Matrix(self.matrix.dimensions, capacity=rows.count())
        self.held = {}
        wrong = _wrong_questions(response__deployment_id=mark.deployment_id)
        batch: list[tuple[Any, ...]] = []
        for row in rows.values_list(*_COLUMNS).iterator(chunk_size=_LOAD_BATCH):
            batch.append(row)
            if len(batch) == _LOAD_BATCH:
                self._put(batch, [], wrong)
                batch = []
        self._put(batch, [], wrong)

    def _put(
        self,
        rows: Sequence[tuple[Any, ...]],
        removed: Iterable[EntryKey],
        wrong: Mapping[int, frozenset[str]],
    ) -> None:
        dimensions = self.matrix.dimensions
        # A row whose vector was damaged from outside is left out rather than taken for another.
        size = dimensions * _FLOAT32.itemsize
        good = [row for row in rows if len(row[_EMBEDDING]) == size]
        fresh = [_held(row, wrong.get(row[0], _NONE_WRONG)) for row in good]
        vectors = np.frombuffer(b"".join(row[_EMBEDDING] for row in good), dtype=_FLOAT32)
        self.matrix.apply(
            keys=[held.key for held in fresh],
            rows=vectors.reshape(len(good), dimensions),
            removed=removed,
        )
        self.held.update({held.pk: held for held in fresh})

    def nearest(self, vector: Vector, *, limit: int, least: float | None) -> Nearest:
        snapshot: Snapshot[EntryKey] = self.matrix.snapshot()
        found = snapshot.top(vector, limit=limit, min_score=least)
        return Nearest(
            found=[
                (held, score)
                for key, score in found
                # Another thread may have followed a later version meanwhile.
                if (held := self.held.get(-key[1])) is not None
            ],
            entries=snapshot.live,
            oldest=self.oldest,
        )


def _is_servable(row: tuple[Any, ...], key: str) -> bool:
    return bool(row[2] == EntryStatus.VALID and row[3] == key)


def _held(row: tuple[Any, ...], wrong: frozenset[str]) -> Held:
    pk, version, _status, _recipe, question, audience, created_at, confirmed_at, *rest = row
    review_on, is_scoped, _embedding = rest
    key, confirmed = entry_key(pk, created_at), confirmed_at.timestamp()
    return Held(pk, key, version, question, audience, confirmed, review_on, wrong, is_scoped)


def _wrong_questions(**entries: Any) -> dict[int, frozenset[str]]:
    """The questions that entries were reported for, unless the reported answer has been replaced since."""
    still = Q(answer_digest="") | Q(answer_digest=MD5("response__answer"))
    found: dict[int, set[str]] = {}
    for pk, asked in WrongPair.objects.filter(still, **entries).values_list(
        "response_id", "question_hash"
    ):
        found.setdefault(pk, set()).add(asked)
    return {pk: frozenset(asked) for pk, asked in found.items()}


def entry_key(pk: int, created_at: datetime) -> EntryKey:
    return (-int(created_at.timestamp() * 1_000_000), -pk)


@dataclass(slots=True)
class _ArrayCache:
    """The arrays of this process, least recently used first, within a budget of bytes."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _arrays: "OrderedDict[tuple[uuid.UUID, str, int | None], _Array]" = field(
        default_factory=OrderedDict
    )
    _warned: set[uuid.UUID] = field(default_factory=set)

    def get(
        self, shelf: uuid.UUID, key: str, dimensions: int, *, after: int | None = None
    ) -> _Array:
        with self._lock:
            place = (shelf, key, after)
            array = self._arrays.get(place)
            if array is None:
                array = self._arrays[place] = _Array(dimensions, after=after)
                for other in [each for each in self._arrays if each[:2] == place[:2]]:
                    # Behind a collection that has been left, or has gone on.
                    if other != place and (after is not None or other[2] is not None):
                        del self._arrays[other]
            self._arrays.move_to_end(place)
            return array

    def known_empty(self, mark: "MemoryMark", key: str) -> bool:
        with self._lock:
            array = self._arrays.get((mark.uuid, key, None))
        return array is not None and array.seen >= mark.version and not array.held

    def trim(self) -> None:
        """Forget arrays until the budget holds; the one used last always stays."""
        with self._lock:
            total = sum(array.matrix.nbytes for array in self._arrays.values())
            while total > settings.MEMORY_CACHE_BYTES and len(self._arrays) > 1:
                total -= self._arrays.popitem(last=False)[1].matrix.nbytes

    def warn_when_large(self, mark: MemoryMark, entries: int) -> None:
        if entries <= settings.MEMORY_COMFORTABLE_ENTRIES or mark.uuid in self._warned:
            return
        self._warned.add(mark.uuid)
        logger.warning(
            "The memory of deployment %d holds %d entries, above MEMORY_COMFORTABLE_ENTRIES=%d: "
            "lookups grow slower; prune_memory removes what is too old.",
            mark.deployment_id,
            entries,
            settings.MEMORY_COMFORTABLE_ENTRIES,
        )


_arrays = _ArrayCache()


def is_known_empty(mark: MemoryMark, recipe: Recipe) -> bool:
    """Whether this process has seen, at this mark, that no entry may answer. Touches no database."""
    return _arrays.known_empty(mark, recipe_key(recipe))


def nearest_entries(
    mark: MemoryMark,
    vector: Vector,
    *,
    recipe: Recipe,
    limit: int,
    least: float | None,
    indexed: Sequence[int] | None = None,
) -> Nearest:
    """The entries nearest to a unit vector, best first, the most recent of equals before the others.

    `indexed` are the keys that a collection found near (`faqs.memory.large`): their rows are read, and an array holds
    only what was written since.
    """
    key = recipe_key(recipe)
    if indexed is not None:
        return _nearest_of_large(mark, vector, recipe, limit, least, indexed)
    if Uncommitted.covers(mark.uuid):
        own = _Array(recipe.dimensions)
        own.follow(mark, key)
        return own.nearest(vector, limit=limit, least=least)
    array = _arrays.get(mark.uuid, key, recipe.dimensions)
    with array.lock:
        changed = array.follow(mark, key)
        nearest = array.nearest(vector, limit=limit, least=least) if changed else None
    if nearest is None:
        return array.nearest(vector, limit=limit, least=least)
    _arrays.trim()
    _arrays.warn_when_large(mark, nearest.entries)
    return nearest


def _nearest_of_large(
    mark: MemoryMark,
    vector: Vector,
    recipe: Recipe,
    limit: int,
    least: float | None,
    indexed: Sequence[int],
) -> Nearest:
    key, after = recipe_key(recipe), mark.indexed_version
    if Uncommitted.covers(mark.uuid):
        tail = _Array(recipe.dimensions, after=after)
    else:
        tail = _arrays.get(mark.uuid, key, recipe.dimensions, after=after)
    with tail.lock:
        tail.follow(mark, key)
        recent = tail.nearest(vector, limit=limit, least=least)
    size = recipe.dimensions * _FLOAT32.itemsize
    # An entry that was written since is in the array, or may no longer answer.
    rows = [
        row
        for row in CachedResponse.objects.filter(
            deployment_id=mark.deployment_id, pk__in=indexed, version__lte=after
        ).values_list(*_COLUMNS)
        if _is_servable(row, key) and len(row[_EMBEDDING]) == size
    ]
    wrong = _wrong_questions(response_id__in=[row[0] for row in rows]) if rows else {}
    found = list(recent.found)
    for row in rows:
        score = float(np.frombuffer(row[_EMBEDDING], dtype=_FLOAT32) @ vector)
        if least is None or score >= least:
            found.append((_held(row, wrong.get(row[0], _NONE_WRONG)), score))
    found.sort(key=lambda each: (-each[1], each[0].key))
    # Too old entries are pruned by a worker: none looks at the ages of all.
    return Nearest(found=found[:limit], entries=recent.entries, oldest=float("inf"))


class Uncommitted:
    """Marks a shelf as written by the open transaction, by standing among its commit hooks.

    Django drops the hooks of a transaction, or of a savepoint, that is rolled back, and empties the list at commit:
    the mark lives exactly as long as the rows that only this connection sees.
    """

    def __init__(self, shelf: uuid.UUID) -> None:
        self.shelf = shelf

    def __call__(self) -> None:
        """Nothing to do at commit."""

    @staticmethod
    def mark(shelf: uuid.UUID) -> None:
        transaction.on_commit(Uncommitted(shelf))

    @staticmethod
    def covers(shelf: uuid.UUID) -> bool:
        if not connection.in_atomic_block:
            return False
        hooks: Iterable[tuple[Any, ...]] = connection.run_on_commit
        return any(isinstance(hook[1], Uncommitted) and hook[1].shelf == shelf for hook in hooks)
