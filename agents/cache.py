"""A cache in each process for values that change rarely: the process that writes calls `clear`, others await expiry."""

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import ClassVar, Generic, TypeVar
from weakref import WeakSet

from cachetools import TLRUCache
from django.conf import settings

T = TypeVar("T")


class TtlCache(Generic[T]):
    """A thread-safe cache by key; a value expires after `seconds`, a number or the name of a setting."""

    _all: "ClassVar[WeakSet[TtlCache[object]]]" = WeakSet()

    def __init__(self, seconds: str | float = math.inf, *, most: int = 1_024) -> None:
        self._seconds = seconds
        self._most = most
        self._lock = threading.Lock()
        self.clear()
        TtlCache._all.add(self)  # type: ignore[arg-type]  # whatever it holds, it can be cleared

    def get(self, read: Callable[[], T], key: Hashable = None) -> T:
        """The cached value of `key`, else the one that `read` returns, which is cached."""
        # What is being read while somebody clears the cache goes to the one that was cleared.
        values = self._values
        with self._lock:
            if key in values:
                return values[key]
        found = read()
        with self._lock:
            values[key] = found
        return found

    def is_fresh(self, key: Hashable = None) -> bool:
        """Whether `get` would return a cached value."""
        with self._lock:
            return key in self._values

    def clear(self) -> None:
        """Drop every value, and ignore reads that are under way."""
        # The clock is looked up at each call, so that a test can turn it.
        self._values: TLRUCache[Hashable, T] = TLRUCache(self._most, self._expiry, timer=lambda: time.monotonic())

    def _expiry(self, _key: Hashable, _value: T, now: float) -> float:
        return now + (getattr(settings, self._seconds) if isinstance(self._seconds, str) else self._seconds)

    @classmethod
    def clear_all(cls) -> None:
        """Clear every cache of the process, between tests."""
        for cache in cls._all:
            cache.clear()
