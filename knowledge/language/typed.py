"""Reads a question as it was typed: `read_typed` mends and unwraps it, `courtesy_in` finds what asks nothing. Pure.

A text is a courtesy if all its words are phrases of `data/<language>/classes.toml` or words allowed beside them:
« Bonjour, qui êtes-vous ? » is one, « Bonjour, comment m'inscrire ? » is none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from knowledge.language.spelling import Phrases, Token, Vocabulary, lowered, phrases, spelled, tokens_of
from knowledge.language.words import LANGUAGES, fold, language_of, word_class, words

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


@dataclass(frozen=True, slots=True)
class Courtesy:
    kind: Kind
    #: Of its words, where they are of one language only.
    language: str = ""


def courtesy_in(text: str) -> Courtesy | None:
    """The courtesy that a text is, or nothing. `unclear`: no word at all, or one letter; a figure may be a choice."""
    said = words(_DRAWN_OUT.sub(r"\1", fold(text)))
    if said and len(text) > _MOST_CHARACTERS:
        return None
    if not said or (len(said) == 1 and len(said[0]) == 1 and said[0].isalpha()):
        return Courtesy("unclear")
    kinds: set[Kind] = set()
    languages = set(LANGUAGES)
    while said:
        if length := _courtesies().length_at(said, 0):
            kind, spoken = _courtesies().read_as(said[:length])
            kinds.add(kind)
            languages &= spoken
        elif said[0] not in _beside():
            return None
        said = said[length or 1 :]
    first = next((kind for kind in _CLASSES.values() if kind in kinds), None)
    return None if first is None else Courtesy(first, *languages) if len(languages) == 1 else Courtesy(first)


@cache
def _courtesies() -> Phrases[tuple[Kind, frozenset[str]]]:
    """Every phrase, with its kind and the languages that have it."""
    found: dict[str, tuple[Kind, frozenset[str]]] = {}
    for name, kind in _CLASSES.items():
        for language in LANGUAGES:
            for entry in word_class(name, language):
                phrase = entry.replace("_", " ")
                _kind, known = found.get(phrase, (kind, frozenset()))
                found[phrase] = (kind, known | {language})
    return Phrases(found)


@cache
def _beside() -> frozenset[str]:
    return word_class("courtesy_fillers") | word_class("beside_courtesies")


#: « Je voudrais savoir si vous pouvez me dire comment… »: wrappers inside wrappers.
_MOST_LAYERS = 4
_EDGES = " \t\n\r\u00a0\u202f,;:.!-–—"


def unwrapped(text: str, language: str) -> str:
    """The question without what wraps it; the text itself where nothing would be left."""
    for _layer in range(_MOST_LAYERS):
        core = _Wrapped(text, tokens_of(text), language).core()
        if core == text:
            break
        text = core
    return text


@dataclass(slots=True)
class _Wrapped:
    text: str
    tokens: Sequence[Token]
    language: str
    first: int = 0
    last: int = 0
    #: How the question begins in place of its first words, and whether an indirect form was taken off.
    opening: str = ""
    is_indirect: bool = False

    def core(self) -> str:
        self.last = len(self.tokens)
        words = [token.folded for token in self.tokens]
        self._take_closings(words)
        self._take_openings(words)
        self._take_indirect(words)
        kept = self.tokens[self.first : self.last]
        is_whole = self.first == 0 and self.last == len(self.tokens) and not self.is_indirect
        small = word_class("stop_words") | word_class("courtesies") | word_class("courtesy_fillers")
        if is_whole or all(token.folded in small for token in kept):
            return self.text
        return self._written()

    def _take_closings(self, words: list[str]) -> None:
        table = phrases("closings")
        while self.last > 1:
            length = table.length_before(words, self.last)
            at = self.last - length
            if not length or at < 1 or not self._may_close(at, length):
                return
            # A figure behind the last word belongs to something.
            if any(map(str.isdigit, self.text[self.tokens[self.last - 1].end :])):
                return
            self.last = at

    def _may_close(self, at: int, length: int) -> bool:
        if self.tokens[at].starts or length > 1:
            return True
        has_marks = any(token.starts for token in self.tokens[1:])
        return not has_marks and at > 2 and self.tokens[at - 1].folded not in word_class("speaking")

    def _take_openings(self, words: list[str]) -> None:
        openings, fillers = phrases("openings"), phrases("fillers")
        at = 0
        while at < self.last:
            length = openings.length_at(words, at)
            if not length:
                length = fillers.length_at(words, at)
                ends = at + length
                if not length or ends >= self.last or not self.tokens[ends].starts:
                    break
            if self._has_digits_between(at, at + length):
                break
            at += length
        if at < self.last:
            self.first = at

    def _has_digits_between(self, first: int, end: int) -> bool:
        stop = self.tokens[end].start if end < len(self.tokens) else len(self.text)
        start = self.tokens[first].start if first else 0
        return any(map(str.isdigit, self.text[start:stop]))

    def _take_indirect(self, words: list[str]) -> None:
        at = self.first
        length = phrases("indirect").length_at(words, at)
        if not length or self._has_digits_between(at, at + length):
            return
        at += length
        fillers, asking, changed = phrases("fillers"), phrases("asking"), phrases("unwrapped")
        while filler := fillers.length_at(words, at):
            at += filler
        if at >= self.last:
            return
        if taken := changed.length_at(words, at):
            self.opening = changed.read_as(words[at : at + taken])
            at += taken
        elif not asking.length_at(words, at):
            return
        if at < self.last:
            self.first, self.is_indirect = at, True

    def _written(self) -> str:
        start = self._start()
        end = self.tokens[self.last - 1].end
        behind = self.tokens[self.last].start if self.last < len(self.tokens) else len(self.text)
        core = self.text[start:end] + self.text[end:behind].rstrip(_EDGES + "\"'«»(")
        taken = self.text[behind:]
        if self.opening:
            core = self.opening + ("" if self.opening.endswith("'") else " ") + core
        if "?" not in core[-2:] and (self.is_indirect or "?" in taken):
            core += " ?" if self.language != "en" else "?"
        return core[0].upper() + core[1:] if self.first or self.opening else core

    def _start(self) -> int:
        """Return where the question starts behind its courtesies: at its first word, or at the signs and digits before it."""
        if self.first == 0:
            return len(self.text) - len(self.text.lstrip())
        start = self.tokens[self.first].start
        before = self.tokens[self.first - 1].end if self.first else 0
        gap = self.text[before:start]
        return start - (len(gap) - len(gap.rstrip("\"'«(0123456789-+€$<>≤≥%")))


#: The beginning is read; what stands behind it stays as it was typed.
READ_CHARACTERS = 4_000
#: With fewer words of content a question does not stand without its story; a story has at least so many words.
_LEAST_CONTENT = 2
_LEAST_STORY = 4
_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=\S)|\n+")


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """`text` is how the question is read; `others` holds the question of a story, to be looked up beside the whole."""

    typed: str
    text: str
    others: tuple[str, ...] = ()

    @property
    def is_as_typed(self) -> bool:
        return self.text == self.typed and not self.others


def read_typed(question: str, vocabulary: Vocabulary) -> TypedQuestion:
    """The reading of one question; what has no word in it is read as itself."""
    head, rest = _parts(question)
    if not any(map(str.isalpha, head)):
        return TypedQuestion(question, question)
    text = lowered(head, vocabulary)
    language = language_of(text)
    text = unwrapped(spelled(text, vocabulary, language), language)
    asked = [each for each in _question_of_story(text, language) if each != text]
    return TypedQuestion(question, text + rest, tuple(each + rest for each in asked))


def _parts(question: str) -> tuple[str, str]:
    """Cut a long text between two words, into the part that is read and the rest."""
    if len(question) <= READ_CHARACTERS:
        return question, ""
    at = question.rfind(" ", 0, READ_CHARACTERS)
    at = READ_CHARACTERS if at < 0 else at
    return question[:at], question[at:]


def _question_of_story(text: str, language: str) -> list[str]:
    """Return the only sentence that asks among sentences that tell, in a list; an empty list where there is none."""
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    asking = [part for part in sentences if part.endswith("?")]
    if len(sentences) < 2 or len(asking) != 1:
        return []
    story = sum(len(tokens_of(part)) for part in sentences if part != asking[0])
    asked = unwrapped(asking[0], language)
    small = word_class("stop_words")
    content = sum(token.folded not in small for token in tokens_of(asked))
    return [asked] if content >= _LEAST_CONTENT and story >= _LEAST_STORY else []
