"""What people type that asks nothing of a document: a greeting, thanks, who is there, a bare sign. Pure.

A text is a courtesy where all its words are: the phrases of `words/<language>.toml` and what may stand beside them. So
"Bonjour, qui êtes-vous ?" is one, and « Bonjour, comment m'inscrire ? » is none.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from knowledge.language.classes import LANGUAGES, word_class
from knowledge.language.folding import fold, words

Kind = Literal["presentation", "well_being", "thanks", "farewell", "greeting", "unclear"]

#: The class of each kind. Of several in one text the first is replied to: whoever thanks and leaves has thanked.
_CLASSES: dict[str, Kind] = {
    "who_is_there": "presentation",
    "well_being": "well_being",
    "thanks": "thanks",
    "farewells": "farewell",
    "greetings": "greeting",
}
#: Longer texts are read by nobody as a courtesy.
_MOST_CHARACTERS = 120
_DRAWN_OUT = re.compile(r"([a-z])\1{2,}")

_Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Courtesy:
    kind: Kind
    #: Of its words, where they are of one language only.
    language: str = ""


def courtesy_in(text: str) -> Courtesy | None:
    """The courtesy that a text is, or nothing. `unclear`: no word at all, or one letter; a figure may be a choice."""
    said = _words_of(text)
    if said and len(text) > _MOST_CHARACTERS:
        return None
    if not said or (len(said) == 1 and len(said[0]) == 1 and said[0].isalpha()):
        return Courtesy("unclear")
    kinds: set[Kind] = set()
    languages = set(LANGUAGES)
    while said:
        phrase = next((known for known in _phrases() if said[: len(known)] == list(known)), None)
        if phrase is not None:
            kind, spoken = _phrases()[phrase]
            kinds.add(kind)
            languages &= spoken
        elif said[0] not in _beside():
            return None
        said = said[len(phrase or "_") :]
    first = next((kind for kind in _CLASSES.values() if kind in kinds), None)
    return None if first is None else Courtesy(first, *languages) if len(languages) == 1 else Courtesy(first)


def _words_of(text: str) -> list[str]:
    return words(_DRAWN_OUT.sub(r"\1", fold(text)))


@cache
def _phrases() -> dict[_Phrase, tuple[Kind, frozenset[str]]]:
    """Every phrase, the longest first, with its kind and the languages that have it."""
    found: dict[_Phrase, tuple[Kind, frozenset[str]]] = {}
    for name, kind in _CLASSES.items():
        for language in LANGUAGES:
            for entry in word_class(name, language):
                phrase = tuple(entry.split("_"))
                _kind, known = found.get(phrase, (kind, frozenset()))
                found[phrase] = (kind, known | {language})
    return dict(sorted(found.items(), key=lambda each: (-len(each[0]), each[0])))


@cache
def _beside() -> frozenset[str]:
    return word_class("courtesy_fillers") | word_class("beside_courtesies")
