"""What a process holds: the backends of a setting, loaded once, and values that change rarely.

The process that writes such a value calls `clear`; others await its expiry.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

from cachetools import TLRUCache
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

T = TypeVar("T")


class BackendHandler(Generic[T]):
    """The instances of a settings dictionary, by alias; ask with `in` first whether there is one."""

    def __init__(self, setting: str, base: "type[T]") -> None:
        self._setting = setting
        self._base = base
        self._instances: dict[str, T] = {}
        self._lock = threading.Lock()
        setting_changed.connect(self._forget)

    def __contains__(self, alias: str) -> bool:
        return alias in getattr(settings, self._setting)

    def __getitem__(self, alias: str) -> T:
        with self._lock:
            if alias not in self._instances:
                self._instances[alias] = self._load(alias)
            return self._instances[alias]

    def _load(self, alias: str) -> T:
        if alias not in self:
            raise ImproperlyConfigured(f"{self._setting} has no alias {alias!r}.")
        entry = getattr(settings, self._setting)[alias]
        instance = import_string(entry["BACKEND"])(**entry.get("OPTIONS", {}))
        if not isinstance(instance, self._base):
            raise ImproperlyConfigured(f"{entry['BACKEND']} is not a {self._base.__name__}.")
        return instance

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        if setting == self._setting:
            with self._lock:
                self._instances.clear()


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
