"""The words of a typed text with their places, and which of them are left alone. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from knowledge.language.folding import fold

_CHUNK = re.compile(r"\S+")
_WORD = re.compile(r"[^\W\d_]+")
#: Inside a run without spaces these make it an address, a path or a code.
_CODE = re.compile(r"[\d@_\\#&+*=<>|~^€$£%°]|\w[./:]\w")
_MARKS = re.compile(r"[.,;:!?…\n()«»\"“”]")


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    folded: str
    start: int
    end: int
    #: A mark or a line stands between it and the word before; nothing is before the first.
    starts: bool
    #: Part of a code, an address or a number.
    is_protected: bool


@lru_cache(maxsize=64)
def tokens_of(text: str) -> tuple[Token, ...]:
    """Cached for the steps that read one question after each other."""
    found: list[Token] = []
    last = 0
    for chunk in _CHUNK.finditer(text):
        is_protected = _CODE.search(chunk[0]) is not None
        for word in _WORD.finditer(text, chunk.start(), chunk.end()):
            starts = not found or _MARKS.search(text, last, word.start()) is not None
            found.append(Token(word[0], _folded(word[0]), word.start(), word.end(), starts, is_protected))
            last = word.end()
    return tuple(found)


@lru_cache(maxsize=16_384)
def _folded(word: str) -> str:
    return fold(word)
