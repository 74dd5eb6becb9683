"""Rows of the database that a process keeps as a matrix: read once, then only what changed since.

Every write to a collection (of points, or of a memory's entries) locks it and gives its rows the next version, so who
has seen version n misses nothing by reading the rows above n. A deletion stays as a mark until it is purged; who has
not seen a mark that is gone reads everything anew. Kept rows are committed ones: a transaction that has written to a
collection itself (`Uncommitted`) reads it apart, because a rollback gives its versions to other rows.
"""

import threading
import uuid
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from django.conf import settings
from django.db import connection, transaction

from knowledge.vectors.similarity import Key, Matrix

#: Before the first version.
NEVER = -1


class Mark(Protocol):
    """Where a collection stands: its version, and the newest one of which deletions were purged."""

    @property
    def version(self) -> int: ...

    @property
    def purged_version(self) -> int: ...


M = TypeVar("M", bound=Mark)
K = TypeVar("K", bound=Key)
C = TypeVar("C")


class Followed(ABC, Generic[M, K, C]):
    """A collection's matrix and the version it has seen. One that begins `after` a version is never loaded whole."""

    def __init__(self, dimensions: int, *, after: int | None = None) -> None:
        self.lock = threading.Lock()
        self.after = after
        self.seen = NEVER if after is None else after
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
        if self.after is None and (self.seen == NEVER or self.seen < mark.purged_version):
            return False
        changed = self.changes(mark)
        # Asked after the rows were read: a purge in between may have taken deletions out of them.
        if self.after is None and self.purged(mark) > self.seen:
            return False
        self.apply(changed)
        return True

    @abstractmethod
    def size(self, mark: M) -> int:
        """How many rows there are, about."""

    @abstractmethod
    def everything(self, mark: M) -> Iterator[C]:
        """All rows, in batches, for an empty matrix."""

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
    """What this process follows, least recently used first, within the bytes that a setting allows."""

    def __init__(self, budget: str) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, F] = OrderedDict()
        self._warned: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, place: Hashable, make: Callable[[], F], *, after: int | None = None) -> F:
        """What follows `place`, made where there is none that begins there."""
        with self._lock:
            found = self._kept.get(place)
            if found is None or found.after != after:
                found = self._kept[place] = make()
            self._kept.move_to_end(place)
            return found

    def held(self, place: Hashable) -> F | None:
        return self._kept.get(place)

    def trim(self) -> None:
        """Forget until the budget holds; what was used last always stays."""
        with self._lock:
            total = sum(each.matrix.nbytes for each in self._kept.values())
            while total > getattr(settings, self._budget) and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1].matrix.nbytes

    def first_warning(self, place: Hashable) -> bool:
        """Whether nobody was warned of it yet."""
        with self._lock:
            is_first = place not in self._warned
            self._warned.add(place)
            return is_first


class Uncommitted:
    """Marks a collection as written by the open transaction, by standing among its commit hooks.

    Django drops the hooks of a transaction, or of a savepoint, that is rolled back, and empties the list at commit: the
    mark lives exactly as long as the rows that only this connection sees.
    """

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
