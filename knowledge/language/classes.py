"""Data of the languages, read from `words/<language>/`: classes of words, and how people type.

`classes.toml` says what only grammar, courtesy or habit puts into a text; `typed.toml` what a reader of typed questions
needs. Every language has the same files with the same entries. Words stand folded (`folding.fold`), separated by
spaces.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

#: In the order in which their stemmers and word lists are applied.
LANGUAGES = ("fr", "en")
_FOLDER = Path(__file__).parent / "words"


@cache
def language_data(language: str, file: str) -> dict[str, Any]:
    """One file of one language, as it stands."""
    path = _FOLDER / language / f"{file}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def word_classes(language: str) -> dict[str, str]:
    """Every class of one language by its name, as it stands in the file."""
    return language_data(language, "classes")


@cache
def word_class(name: str, language: str = "") -> frozenset[str]:
    """The words of a class in one language, or in all of them."""
    chosen = (language,) if language else LANGUAGES
    return frozenset(word for code in chosen for word in word_classes(code)[name].split())


def one_of(name: str) -> str:
    """The expression that any entry of a class matches, in any language; an entry may be an expression itself."""
    return "|".join(sorted(word_class(name))).replace("_", " ")
