"""Words of French and English that ask for the same thing (`meanings.toml`): what a word of one language finds in texts
of the other. Not for deciding whether two questions are the same: meanings are wide."""

import tomllib
from functools import cache
from pathlib import Path

#: So many letters of a word count, as in the words of tools.
BEGINNING = 5
_FILE = Path(__file__).with_name("meanings.toml")


def meanings_of(word: str) -> tuple[str, ...]:
    """The meanings of a folded word, or of its first five letters; of a short plural, those of its singular."""
    known, beginning = _by_beginning(), word[:BEGINNING]
    return known.get(beginning) or known.get(beginning.removesuffix("s"), ())


@cache
def _by_beginning() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for meaning, listed in tomllib.loads(_FILE.read_text(encoding="utf-8")).items():
        for word in listed.split():
            found.setdefault(word[:BEGINNING], {})[meaning] = None
    return {beginning: tuple(meanings) for beginning, meanings in found.items()}
