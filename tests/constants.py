"""`override`: another value of a setting, or of a constant in every module that has it by that name; pytest's fixture
`settings` does the same for each value that is assigned to it.
"""

import re
import sys
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from django.test import override_settings

ROOT = Path(__file__).parents[1]
APPS = ("agents", "chat", "config", "faqs", "knowledge", "tools_registry")


@cache
def _defining(name: str) -> list[str]:
    """Return the modules of the product in which a line assigns the constant."""
    assigned = re.compile(rf"^{name}\b.* = ", re.MULTILINE)
    files = (path.relative_to(ROOT) for app in APPS for path in (ROOT / app).rglob("*.py"))
    found = (path for path in files if assigned.search((ROOT / path).read_text()))
    return [".".join(path.with_suffix("").parts) for path in found if path.parts[:2] != ("config", "settings.py")]


def _holders(name: str) -> list[dict[str, Any]]:
    # The module that defines it may be one that is loaded on demand.
    for path in _defining(name):
        import_module(path)
    modules = [
        module
        for key, module in sys.modules.items()
        if key.split(".")[0] in APPS and not key.startswith(("config.settings", "config.constants"))
    ]
    return [vars(module) for module in modules if name in vars(module)]


class override(override_settings):
    """As `override_settings`: decorator of tests and of their classes, or context manager."""

    def __init__(self, **values: Any) -> None:
        self._all = values
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        super().__init__()

    def enable(self) -> None:
        found = {name: _holders(name) for name in self._all}
        for name, holders in found.items():
            for holder in holders:
                self._before.append((holder, name, holder[name]))
                holder[name] = self._all[name]
        self.options = {name: value for name, value in self._all.items() if not found[name]}
        super().enable()

    def disable(self) -> None:
        super().disable()
        while self._before:
            holder, name, value = self._before.pop()
            holder[name] = value

    def decorate_class(self, cls: Any) -> Any:
        """Constants hold while a test of the class runs, settings for the whole class."""
        enable, disable = cls.setUpClass.__func__, cls.tearDownClass.__func__
        mine = self

        def set_up_class(inner: Any) -> None:
            mine.enable()
            enable(inner)

        def tear_down_class(inner: Any) -> None:
            disable(inner)
            mine.disable()

        cls.setUpClass, cls.tearDownClass = classmethod(set_up_class), classmethod(tear_down_class)
        return cls


class Assigned:
    """The fixture `settings`, which takes constants of modules, too."""

    def __init__(self, wrapped: Any, stack: ExitStack) -> None:
        vars(self).update(_wrapped=wrapped, _stack=stack)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if _holders(name):
            self._stack.enter_context(override(**{name: value}))
        else:
            setattr(self._wrapped, name, value)
