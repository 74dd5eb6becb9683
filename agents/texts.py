"""Texts of others as they can be stored and sent: whole characters, and no NUL, which PostgreSQL refuses.

JSON may say half a character (`"\\ud800"`), and so may the name of a file. What a person sends to a door is refused for
it instead (`chat.texts`).
"""

import json
from collections.abc import Mapping
from typing import Any


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
