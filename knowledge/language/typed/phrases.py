"""Phrases of `typed.toml`, of all languages, to be found among the words of a text. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from knowledge.language.classes import LANGUAGES, language_data


class Phrases:
    """Phrases by their first and by their last word, each with what it is read as."""

    def __init__(self, phrases: Mapping[str, str]) -> None:
        split = {tuple(phrase.split()): read for phrase, read in phrases.items()}
        self._read = split
        self._by_first = _lengths(split, 0)
        self._by_last = _lengths(split, -1)

    def length_at(self, words: Sequence[str], at: int) -> int:
        """How many words the longest phrase that begins there has; 0: none does."""
        for length in self._by_first.get(words[at], ()) if at < len(words) else ():
            if at + length <= len(words) and tuple(words[at : at + length]) in self._read:
                return length
        return 0

    def length_before(self, words: Sequence[str], end: int) -> int:
        """The same for the phrase that ends before `end`."""
        for length in self._by_last.get(words[end - 1], ()) if end else ():
            if length <= end and tuple(words[end - length : end]) in self._read:
                return length
        return 0

    def read_as(self, words: Sequence[str]) -> str:
        return self._read[tuple(words)]


def _lengths(phrases: Iterable[tuple[str, ...]], place: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for phrase in phrases:
        found.setdefault(phrase[place], set()).add(len(phrase))
    return {word: tuple(sorted(lengths, reverse=True)) for word, lengths in found.items()}


@cache
def phrases(name: str, language: str = "") -> Phrases:
    """An entry of one language, or of all; the phrases of a table are read as its values."""
    table: dict[str, str] = {}
    for code in (language,) if language else LANGUAGES:
        entry: Any = language_data(code, "typed")[name]
        if isinstance(entry, str):
            table.update((" ".join(part.split()), "") for part in entry.split("|") if part.strip())
        else:
            table.update(entry)
    return Phrases(table)


@cache
def words_of(name: str) -> frozenset[str]:
    """An entry that holds single words, of all languages."""
    return frozenset(word for code in LANGUAGES for word in language_data(code, "typed")[name].split())
