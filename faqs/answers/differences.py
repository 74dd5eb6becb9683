"""What differs between two states of a text or of an answer, word by word: for versions and for imports. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

#: A number with its decimals, a word or a sign, with the blanks before it.
_TOKEN = re.compile(r"\s*(?:\d+(?:[.,]\d+)+|\w+|[^\w\s])|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of words of one side; changed ones are not, or not there, on the other side."""

    text: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs, both sides whole."""

    label: str
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]


def compare_fields(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """The fields, by their labels, whose texts differ."""
    return [
        Change(label, *compare_words(before.get(label, ""), text))
        for label, text in after.items()
        if before.get(label, "") != text
    ]


def compare_words(before: str, after: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts in pieces; joined, the pieces of a side are its text. Spaces alone are no difference, line breaks are."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    # `autojunk` stays on: a text that repeats a few words would take seconds without it.
    matcher = SequenceMatcher(None, [_key(token) for token in old], [_key(token) for token in new])
    left: list[Piece] = []
    right: list[Piece] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        _add(left, old[i1:i2], is_changed=tag != "equal")
        _add(right, new[j1:j2], is_changed=tag != "equal")
    return tuple(left), tuple(right)


def _key(token: str) -> str:
    word = token.lstrip()
    return "\n" * token[: len(token) - len(word)].count("\n") + word


def _add(side: list[Piece], tokens: Sequence[str], *, is_changed: bool) -> None:
    """The blanks before a changed word are not marked with it."""
    text = "".join(tokens)
    blanks = text[: len(text) - len(text.lstrip())] if is_changed else ""
    side += [Piece(blanks, False)] if blanks else []
    side += [Piece(text[len(blanks) :], is_changed)] if len(text) > len(blanks) else []
