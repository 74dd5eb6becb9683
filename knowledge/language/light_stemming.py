"""Light stems, for comparing two questions word by word: only forms that answer alike share one. Pure.

The Snowball stemmers of `stemming` are for searching: they part « traite » from « traitées » and join « prêter » with «
prêt ». Words come folded. The endings are data, in `light_stems.toml`.
"""

import re
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("light_stems.toml")


@lru_cache(maxsize=32_768)
def light_stem(word: str, language: str) -> str:
    """The part of a word that its plural, feminine, conjugation and noun of action share."""
    return _stemmer(language)(word)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))[language]
    return _French(data) if language == "fr" else _English(data)


class _French:
    def __init__(self, data: dict[str, Any]) -> None:
        self._kept = frozenset(data["kept"].split())
        self._endings: dict[str, str] = data["endings"]
        self._suffixes: list[str] = data["suffixes"].split()
        self._infinitives = frozenset(data["infinitives"].split())
        self._kept_stems = frozenset(data["kept_stems"].split())

    def __call__(self, word: str) -> str:
        if word in self._kept or len(word) < 4 or not word.isalpha():
            return word
        for ending, replacement in self._endings.items():
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)] + replacement
        if word.endswith("aux") and len(word) > 5:
            return word[:-3] + "al"
        if word.endswith("s") and len(word) > 4:
            word = word if word.endswith(("is", "us", "ss", "ons", "eas")) else word[:-1]
        word = self._without_suffix(word)
        if len(word) > 4 and word[-1] == "r" and word[-2] in "tdv" and word not in self._kept_stems:
            word = word[:-1]
        if len(word) > 4 and word[-1] == word[-2]:
            word = word[:-1]
        # « modifi(er) », « resili(er) » and « modifi(cation) » meet on the same letter.
        return word[:-1] if len(word) > 5 and word[-1] == "i" else word

    def _without_suffix(self, word: str) -> str:
        for suffix in self._suffixes:
            if word.endswith(suffix) and len(word) - len(suffix) >= 4:
                rest = word[: -len(suffix)]
                if suffix.startswith("fic"):
                    return rest + "fi"
                return rest + suffix[:-2] if suffix in self._infinitives else rest
        return word


class _English:
    def __init__(self, data: dict[str, Any]) -> None:
        self._kept = frozenset(data["kept"].split())
        self._endings = [(e, r, 3 if e in data["short"].split() else 4) for e, r in data["endings"]]
        self._spellings = [(re.compile(pattern), to) for pattern, to in data["spellings"]]
        self._alike = frozenset(data["alike_spelled"].split())
        self._american_words: dict[str, str] = data["american"]

    def __call__(self, word: str) -> str:
        word = self._american(word)
        if word in self._kept or len(word) < 4 or not word.isalpha():
            return word
        if word.endswith(("ss", "us", "is")):
            return word
        if word.endswith("ly") and len(word) > 5:
            word = word[:-3] + "y" if word.endswith("ily") else word[:-2]
        for ending, replacement, least in self._endings:
            if word.endswith(ending) and len(word) - len(ending) >= least:
                word = word[: -len(ending)] + replacement
                break
        if len(word) > 3 and word.endswith("e"):
            word = word[:-1]
        if len(word) > 3 and word[-1] == word[-2]:
            word = word[:-1]
        return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word

    def _american(self, word: str) -> str:
        """One spelling for both sides of the ocean: « centre » and « center »."""
        if word in self._american_words:
            return self._american_words[word]
        if len(word) < 5 or word in self._alike:
            return word
        for pattern, replacement in self._spellings:
            word = pattern.sub(replacement, word)
        return word
