"""Text as somebody sent it, at whichever door: UTF-8 and whole characters, or it is refused here and nowhere later.

Python reads more than that of its own accord: JSON in UTF-16 and UTF-32, and halves of characters (unpaired surrogates,
as bytes
or as `\\ud800`), which can be neither stored nor sent.
"""

import codecs
import json
from typing import Any, NoReturn

from django.http import HttpRequest

from chat.exceptions import UnreadableTextError


def read_json(said: bytes | str) -> Any:
    """The value of a JSON text. Raises `UnreadableTextError`, or `ValueError` where it is no JSON, or nested beyond
    reading.
    """
    text = _whole_text(said)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            _whole_text(json.dumps(value, ensure_ascii=False))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def require_utf8_form(request: HttpRequest) -> None:
    """Django reads forms in whatever encoding they name, and fails in those that are none, or make halves of
    characters.
    """
    is_form = request.content_type in ("multipart/form-data", "application/x-www-form-urlencoded")
    if is_form and request.encoding and codecs.lookup(request.encoding).name != "utf-8":
        raise UnreadableTextError(f"a form in {request.encoding}")


def _whole_text(said: bytes | str) -> str:
    """The text, without the mark that some programs begin with; a zero byte is how other encodings look."""
    try:
        data = said.encode() if isinstance(said, str) else said
        text = data.decode("utf-8-sig")
    except UnicodeError as error:
        raise UnreadableTextError("not UTF-8, or half a character") from error
    if "\0" in text:
        raise UnreadableTextError("zero bytes")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
