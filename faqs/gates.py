"""A cheap look before a regular expression: texts that every match contains.

A lexicon has some ninety rewrites, and hardly any of them applies to a given question. Searching a text for a plain
string costs a hundredth of running an expression over it, so each expression gets a gate: it is run only where one of
its needed texts stands. `needed_texts` reads them off the parsed expression and is conservative: what it does not know
needs nothing, and is always run. Pure.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from re import _constants, _parser  # type: ignore[attr-defined]  # public as sre_parse until 3.10
from typing import Any

#: More alternatives than this cost as much as the expression.
_MOST = 16


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An expression with its replacement, and texts of which one stands in whatever it matches; none: always run."""

    pattern: re.Pattern[str]
    replacement: str
    needed: tuple[str, ...]


def rewritten(text: str, rows: Iterable[Rewrite]) -> str:
    """The text after every rewrite in turn."""
    for rewrite in rows:
        needed = rewrite.needed
        for part in needed:
            if part in text:
                text = rewrite.pattern.sub(rewrite.replacement, text)
                break
        if not needed:
            text = rewrite.pattern.sub(rewrite.replacement, text)
    return text


def rewrites(rows: Iterable[tuple[str, str]]) -> tuple[Rewrite, ...]:
    return tuple(
        Rewrite(re.compile(pattern), replacement, needed_texts(pattern))
        for pattern, replacement in rows
    )


def needed_texts(pattern: str) -> tuple[str, ...]:
    """Texts of which at least one stands in every text that `pattern` matches; empty where none is known."""
    found = _of_sequence(_parser.parse(pattern)) or frozenset()
    # A text that holds another one is needed no more than that one.
    shortest = {text for text in found if not any(o != text and o in text for o in found)}
    return tuple(sorted(shortest)) if 0 < len(shortest) <= _MOST else ()


def _of_sequence(items: Any) -> frozenset[str] | None:
    """The most telling of what the parts of a sequence need: each of them has to match."""
    found: list[frozenset[str]] = []
    literal = ""
    for kind, value in items:
        if kind is _constants.LITERAL:
            literal += chr(value)
            continue
        found.append(frozenset((literal,)))
        literal = ""
        if (needed := _of_item(kind, value)) is not None:
            found.append(needed)
    found.append(frozenset((literal,)))
    telling = [each for each in found if all(text.strip() for text in each)]
    return max(telling, key=_worth, default=None)


def _of_item(kind: Any, value: Any) -> frozenset[str] | None:
    if kind is _constants.SUBPATTERN:
        return _of_sequence(value[-1])
    if kind is _constants.BRANCH:
        branches = [_of_sequence(branch) for branch in value[1]]
        known = [branch for branch in branches if branch is not None]
        return frozenset().union(*known) if len(known) == len(branches) else None
    if kind is _constants.ASSERT:
        return _of_sequence(value[1])
    if kind is _constants.MAX_REPEAT and value[0] > 0:
        return _of_sequence(value[2])
    return None


def _worth(texts: frozenset[str]) -> tuple[bool, float]:
    """Few and long texts keep more questions out."""
    return len(texts) <= _MOST, min(len(text) for text in texts) / (3 + len(texts))
