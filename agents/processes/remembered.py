"""What a process reads now and then and remembers in between, such as settings in the database.

A change made elsewhere is seen when what is remembered has become too old. Whoever makes one here says `forget`.
"""

import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakSet

from django.conf import settings

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by key, each for so many seconds at most, or for those that the named setting says; for any thread.

    Threads that find a value too old at the same moment each read it.
    """

    _all: "WeakSet[Remembered[object]]" = WeakSet()

    def __init__(self, seconds: str | float, *, most: int = 1_024) -> None:
        self._seconds = seconds
        self._most = most
        self._kept: dict[Hashable, tuple[float, T]] = {}
        Remembered._all.add(self)  # type: ignore[arg-type]  # whatever it holds, it can be forgotten

    def get(self, read: Callable[[], T], key: Hashable = None) -> T:
        """The value of `key`, from `read` where none is young enough."""
        now, kept = time.monotonic(), self._kept
        found = kept.get(key)
        if found is None or self._is_old(found, now):
            if len(kept) >= self._most:
                kept.clear()
            found = kept[key] = now, read()
        return found[1]

    def is_fresh(self, key: Hashable = None) -> bool:
        """Whether `get` would read nothing."""
        found = self._kept.get(key)
        return found is not None and not self._is_old(found, time.monotonic())

    def _is_old(self, found: tuple[float, T], now: float) -> bool:
        seconds = self._seconds
        return bool(now - found[0] >= (getattr(settings, seconds) if isinstance(seconds, str) else seconds))

    def forget(self) -> None:
        """Have every value read again, also those that are being read now."""
        # Another dictionary: what a thread is reading is kept in the one that is gone.
        self._kept = {}

    @classmethod
    def forget_all(cls) -> None:
        """For tests: nothing of the one before is remembered."""
        for remembered in cls._all:
            remembered.forget()
