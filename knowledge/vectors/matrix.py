"""Exact search by cosine over rows in memory, and how the rows follow those of the database.

A `Matrix` holds unit rows by key, and their words; readers work on a `Snapshot`, which no later write changes. Every
write to a collection (of points, or of a memory's entries) locks it and gives its rows the next version, so who has
seen version n reads the rows above n only (`Followed`), or all anew where marks of deletions were purged since. A
transaction that wrote itself (`Uncommitted`) reads apart, because a rollback gives its versions to other rows.
"""

import threading
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import connection, transaction

from knowledge.vectors.base import NEAREST_ALWAYS, SCORE_DECIMALS, Vector
from knowledge.vectors.bm25 import Postings, Terms

Mask = npt.NDArray[np.bool_]


class Key(Hashable, Protocol):
    """What identifies a row: hashable, and ordered because ties go by key."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Key)

#: How far float32 products may be from the cosines that decide the order.
_SLACK = np.float32(5e-6)
#: Dead rows are dropped when they are more than the living and more than this.
_DEAD_ROWS = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot(Generic[K]):
    """A state of a matrix that stays as it is; safe to read from any thread."""

    keys: Sequence[K]
    rows: Vector
    live: int
    _alive: Mask | None = None
    _postings: Postings = field(default_factory=Postings)

    def top(
        self,
        vector: Vector,
        question: Terms | None = None,
        *,
        limit: int,
        only: Collection[K] | None = None,
        lexical_weight: float = 0.0,
    ) -> list[tuple[K, float, float]]:
        """The `limit` best keys, or `only` of these, with cosine and overlap, best first, ties by key; see `Wanted`."""
        if limit <= 0 or not self.live:
            return []
        rows, scores = self._scores(vector, only)
        if question is None:
            overlaps, always = np.zeros(len(self.rows), dtype=np.float32), 0
            near = _at_least_as_good(scores, limit)
        else:
            overlaps = self._postings.overlaps(question, size=len(self.rows), live=self.live, alive=self._alive)
            always = NEAREST_ALWAYS
            counted = overlaps if rows is None else overlaps[rows]
            near = _at_least_as_good(scores + np.float32(lexical_weight) * counted, limit)
            near = np.union1d(near, _at_least_as_good(scores, always))
        found = near if rows is None else rows[near]
        hits = self._hits(found, vector, overlaps)
        return rank_hybrid(hits, lexical_weight=lexical_weight, limit=limit, always=always)

    def _hits(self, rows: npt.NDArray[np.intp], vector: Vector, overlaps: Vector) -> list[tuple[K, float, float]]:
        # Recomputed row by row in double precision: equal rows score equally wherever they stand.
        exact = np.einsum("ij,j->i", self.rows[rows].astype(np.float64), vector.astype(np.float64))
        cosines = (np.clip(exact, -1.0, 1.0).round(SCORE_DECIMALS) + 0.0).tolist()
        shares = overlaps[rows].astype(np.float64).round(SCORE_DECIMALS).tolist()
        return [
            (self.keys[row], cosine, share) for row, cosine, share in zip(rows.tolist(), cosines, shares, strict=True)
        ]

    def _scores(self, vector: Vector, only: Collection[K] | None) -> tuple[npt.NDArray[np.intp] | None, Vector]:
        """The scores of the rows that count, and their positions (`None`: all rows, in order)."""
        kept = self._alive
        if only is not None:
            matching = np.fromiter((key in only for key in self.keys), dtype=np.bool_, count=len(self.rows))
            kept = matching if kept is None else matching & kept
        if kept is None:
            return None, self.rows @ vector
        positions = np.flatnonzero(kept)
        return positions, (self.rows @ vector)[positions]


class Matrix(Generic[K]):
    """Rows that can be replaced and removed by key, with lock-free snapshots for readers."""

    def __init__(self, dimensions: int, *, capacity: int = 0) -> None:
        self._lock = threading.Lock()
        self.dimensions = dimensions
        self._store: Vector = np.empty((capacity, dimensions), dtype=np.float32)
        self._keys: list[K] = []
        self._row_of: dict[K, int] = {}
        self._alive: Mask | None = None
        self._postings = Postings()
        self._snapshot: Snapshot[K] = Snapshot(self._keys, self._store[:0], 0)

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._postings.nbytes

    def snapshot(self) -> Snapshot[K]:
        return self._snapshot

    def apply(self, *, keys: Sequence[K], rows: Vector, removed: Iterable[K] = (), terms: Sequence[Terms] = ()) -> None:
        """Remove, then add or replace rows (keys are distinct); readers see all of it or nothing."""
        with self._lock:
            start = len(self._keys)
            end = start + len(keys)
            self._bury([*removed, *keys], end)
            self._grow(end)
            self._store[start:end] = rows
            self._postings = self._postings.extended(start, terms)
            self._keys.extend(keys)
            self._row_of.update(zip(keys, range(start, end), strict=True))
            self._compact()
            self._snapshot = Snapshot(
                self._keys, self._store[: len(self._keys)], len(self._row_of), self._alive, self._postings
            )

    def _bury(self, keys: Iterable[K], size: int) -> None:
        """Mark the rows of `keys` dead in a mask of `size`, made anew so that snapshots keep theirs."""
        dead = [row for key in keys if (row := self._row_of.pop(key, None)) is not None]
        if not dead and self._alive is None:
            return
        alive = np.ones(size, dtype=np.bool_)
        if self._alive is not None:
            alive[: len(self._alive)] = self._alive
        alive[dead] = False
        self._alive = alive

    def _grow(self, size: int) -> None:
        if size <= len(self._store):
            return
        capacity = max(size, 2 * len(self._store))
        store = np.empty((capacity, self.dimensions), dtype=np.float32)
        store[: len(self._keys)] = self._store[: len(self._keys)]
        self._store = store

    def _compact(self) -> None:
        dead = len(self._keys) - len(self._row_of)
        if self._alive is None or dead <= max(_DEAD_ROWS, len(self._row_of)):
            return
        kept = np.flatnonzero(self._alive)
        self._store = self._store[kept]
        self._postings = self._postings.compacted(kept, len(self._keys))
        self._keys = [self._keys[row] for row in kept.tolist()]
        self._row_of = {key: row for row, key in enumerate(self._keys)}
        self._alive = None


def rank_hybrid(
    hits: Iterable[tuple[K, float, float]], *, lexical_weight: float, limit: int, always: int
) -> list[tuple[K, float, float]]:
    """The `limit` best of (key, cosine, overlap), and the `always` best by cosine; best first, ties by key."""
    ranked = sorted(hits, key=lambda hit: (-(hit[1] + lexical_weight * hit[2]), hit[0]))
    nearest = {hit[0] for hit in sorted(ranked, key=lambda hit: (-hit[1], hit[0]))[:always]}
    return [hit for at, hit in enumerate(ranked) if at < limit or hit[0] in nearest]


def _at_least_as_good(scores: Vector, limit: int) -> npt.NDArray[np.intp]:
    """The positions of the `limit` highest scores, and of all that may tie with the last of them."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.flatnonzero(scores >= last - _SLACK)


#: Before the first version.
NEVER = -1


#: A row with a collection's `version`, and the newest version whose deletions were purged, `purged_version`: not a
#: protocol, which mypy does not find in a model's fields.
M = TypeVar("M", bound=Any)
C = TypeVar("C")


class Followed(ABC, Generic[M, K, C]):
    """A collection's matrix and the version it has seen."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.seen = NEVER
        self.matrix: Matrix[K] = Matrix(dimensions)

    def follow(self, mark: M) -> bool:
        """Bring the matrix to the mark's version; `False` where it is there already. Under the lock."""
        if self.seen >= mark.version:
            return False
        if not self._catch_up(mark):
            # Until all of it is read, nobody is to take it for what it was.
            self.seen, self.matrix = NEVER, Matrix(self.matrix.dimensions, capacity=self.size(mark))
            for rows in self.everything(mark):
                self.apply(rows)
        self.seen = mark.version
        return True

    def _catch_up(self, mark: M) -> bool:
        if self.seen == NEVER or self.seen < mark.purged_version:
            return False
        changed = self.changes(mark)
        # Asked after the rows were read: a purge in between may have taken deletions out of them.
        if self.purged(mark) > self.seen:
            return False
        self.apply(changed)
        return True

    @abstractmethod
    def size(self, mark: M) -> int:
        """The approximate number of rows."""

    @abstractmethod
    def everything(self, mark: M) -> Iterator[C]:
        """Yield all rows in batches, to fill an empty matrix."""

    @abstractmethod
    def changes(self, mark: M) -> C:
        """The rows above the version seen."""

    @abstractmethod
    def purged(self, mark: M) -> int:
        """`purged_version` as it is now."""

    @abstractmethod
    def apply(self, rows: C) -> None: ...


F = TypeVar("F", bound=Followed[Any, Any, Any])


class FollowedCollections(Generic[F]):
    """A cache of collections in this process, evicting the least recently used beyond a setting's bytes."""

    def __init__(self, budget: str) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, F] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, place: Hashable, make: Callable[[], F]) -> F:
        """The cached collection of this key, made if missing."""
        with self._lock:
            found = self._kept.get(place)
            if found is None:
                found = self._kept[place] = make()
            self._kept.move_to_end(place)
            return found

    def held(self, place: Hashable) -> F | None:
        return self._kept.get(place)

    def trim(self) -> None:
        """Evict collections until the budget holds; the last used one always stays."""
        with self._lock:
            total = sum(each.matrix.nbytes for each in self._kept.values())
            while total > getattr(settings, self._budget) and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1].matrix.nbytes


class Uncommitted:
    """Marks a collection as written by the open transaction, among its commit hooks, which a rollback drops."""

    def __init__(self, collection: uuid.UUID) -> None:
        self.collection = collection

    def __call__(self) -> None:
        """Nothing to do at commit."""

    @staticmethod
    def mark(collection: uuid.UUID) -> None:
        transaction.on_commit(Uncommitted(collection))

    @staticmethod
    def covers(collection: uuid.UUID) -> bool:
        hooks: Iterable[tuple[Any, ...]] = connection.run_on_commit
        return any(isinstance(hook[1], Uncommitted) and hook[1].collection == collection for hook in hooks)
