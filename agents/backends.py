"""The one loader of pluggable backends: a settings dictionary of aliases to instances, cached as Django's own are.

An alias that is absent from the setting is an `ImproperlyConfigured` error; ask with `in` first.
"""

import threading
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

T = TypeVar("T")


class BackendHandler(Generic[T]):
    def __init__(self, setting: str, base: "type[T]") -> None:
        self._setting = setting
        self._base = base
        self._instances: dict[str, T] = {}
        self._lock = threading.Lock()
        setting_changed.connect(self._forget)

    def __contains__(self, alias: str) -> bool:
        return alias in getattr(settings, self._setting)

    def __getitem__(self, alias: str) -> T:
        instance = self._instances.get(alias)
        if instance is None:
            with self._lock:
                instance = self._instances.get(alias) or self._load(alias)
                self._instances[alias] = instance
        return instance

    def _load(self, alias: str) -> T:
        try:
            entry = getattr(settings, self._setting)[alias]
        except KeyError as error:
            raise ImproperlyConfigured(f"{self._setting} has no alias {alias!r}.") from error
        backend = import_string(entry["BACKEND"])
        instance = backend(**entry.get("OPTIONS", {}))
        if not isinstance(instance, self._base):
            raise ImproperlyConfigured(f"{entry['BACKEND']} is not a {self._base.__name__}.")
        return instance

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        if setting == self._setting:
            with self._lock:
                self._instances.clear()
