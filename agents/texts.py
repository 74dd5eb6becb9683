"""Texts of others as they can be stored (whole characters, no NUL), and the plural of the project's French texts."""

import json
from collections.abc import Mapping
from gettext import NullTranslations
from typing import Any
from weakref import WeakSet

from django.utils.translation.trans_real import translation


def storable(text: str) -> str:
    """Halves of a character paired; a lone half becomes U+FFFD, and a NUL is left out."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "")


def storable_value(value: Any) -> Any:
    """A value of JSON with every text in it storable, names of members too."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable_value(name): storable_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [storable_value(item) for item in value]
    return value


def read_json(said: str | bytes) -> Any:
    """The storable value of a JSON text. Raises `ValueError`, or `RecursionError` where it is nested too deeply."""
    return storable_value(json.loads(said))


class FrenchPlurals(NullTranslations):
    """What a text without a catalogue's entry is in French; gettext's own rule, the English one, says « 0 questions »."""

    def ngettext(self, singular: str, plural: str, count: int) -> str:
        return singular if abs(count) < 2 else plural


_taught: WeakSet[NullTranslations] = WeakSet()


def count_in_french(**_kwargs: object) -> None:
    """Teach the French plural once all apps are loaded; said again, it adds nothing."""
    if (french := translation("fr")) not in _taught:
        french.add_fallback(FrenchPlurals())
        _taught.add(french)
