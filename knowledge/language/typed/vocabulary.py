"""Words and how they are spelled: those of an agent's own texts first, then those of the languages. Pure.

A word is known by its folded form. The languages' words with their frequencies are those of pyspellchecker (film
subtitles), loaded at first use; the frequent ones may mend a typing fault, the others only say that a word is one.
"""

import gzip
import json
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from itertools import accumulate
from string import ascii_lowercase

from knowledge.language.classes import LANGUAGES
from knowledge.language.folding import fold
from knowledge.language.light_stemming import light_stem

#: Words seen less often in the subtitles are too rare to be what a fault was meant to be (about 30,000 are not).
_FREQUENT = 100
#: Accents come back where the spelling with them is so much more frequent than the one without (« ou » and « où »
#: stay).
_CLEARLY = 4
#: Of one agent's words the most frequent are kept: 6 MB.
MOST_WORDS = 30_000
#: Memory for the faults met last, each a few hundred bytes.
_MOST_REMEMBERED = 2_000
#: Shorter words have too many neighbours; one of just so many letters is compared with the agent's words alone.
_SHORTEST_FAULT = 4
#: Nor is a longer one a word (« anticonstitutionnellement » has 25): its neighbours take the square of its length, in
#: memory too.
_LONGEST_FAULT = 30
#: From so many letters a mistyped word is taken for the one that is near: one of the agent's, and any other (« cerfa »
#: is no « cerf »).
_SURE_OWN, _SURE = 5, 7
#: The part of a word's places in small letters from which it is no name.
_SMALL_LETTERS = 0.1
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Mending:
    """What a mistyped word was meant to be; `is_sure` where nothing else is near."""

    word: str
    is_sure: bool


class _Lines:
    """Words as one text: a tenth of the memory that as many strings take."""

    def __init__(self, words: Sequence[str]) -> None:
        self._text = "\n".join([*words, ""])
        self._starts = array("I", accumulate((len(word) + 1 for word in words), initial=0))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, at: int) -> str:
        return self._text[self._starts[at] : self._starts[at + 1] - 1]

    def place(self, word: str) -> int | None:
        """Where it stands, in words that are sorted."""
        at = bisect_left(range(len(self)), word, key=self.__getitem__)
        return at if at < len(self) and self[at] == word else None


class LanguageWords:
    """The words of one language, in 6 MB."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        plain = {word: count for word, count in counts.items() if word.isascii()}
        accented: dict[str, tuple[int, str]] = {}
        written = [word for word in counts if not word.isascii()]
        # As one text: word by word takes three times as long.
        for word, folded in zip(written, fold("\n".join(written)).split("\n"), strict=True):
            accented[folded] = max((counts[word], word), accented.get(folded, (0, "")))
        totals = {**plain}
        for folded, (count, _word) in accented.items():
            totals[folded] = totals.get(folded, 0) + count
        names = sorted(totals)
        self._names = _Lines(names)
        self._counts = array("I", map(totals.__getitem__, names))
        usual = {
            folded: word
            for folded, (count, word) in accented.items()
            if count >= _CLEARLY * plain.get(folded, 0) and not _is_participle(word, folded, plain)
        }
        #: The words that are usually written with accents, and how.
        self._folded = _Lines(sorted(usual))
        self._spelled = _Lines([usual[folded] for folded in sorted(usual)])

    @cached_property
    def frequent(self) -> Mapping[str, int]:
        """How often the frequent ones are seen. Made from the text, once what it was read from is gone: 20 MB less are
        held.
        """
        return {self._names[at]: count for at, count in enumerate(self._counts) if count >= _FREQUENT}

    def has(self, folded: str) -> bool:
        return folded in self.frequent or self._names.place(folded) is not None

    def spelled(self, folded: str) -> str:
        """The form with accents, where it is clearly the usual one; empty: none is."""
        at = self._folded.place(folded)
        return "" if at is None else self._spelled[at]


def _is_participle(word: str, folded: str, plain: Mapping[str, int]) -> bool:
    """« embauché » beside « embauche »: both are words, and only the writer knows which."""
    end = word.rstrip("s")
    return folded in plain and end.endswith("é") and end[:-1].isascii()


@cache
def language_words(language: str) -> LanguageWords:
    """Read once, in 0.3 s; `warm_up` does it before the first question."""
    packed = resources.files("spellchecker").joinpath("resources", f"{language}.json.gz")
    return LanguageWords(json.loads(gzip.decompress(packed.read_bytes())))


def warm_up() -> None:
    for language in LANGUAGES:
        _ = language_words(language).frequent


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The words of an agent's texts: folded → how they are written there, and how often."""

    forms: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    _mended: dict[tuple[str, str], Mending | None] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        seen: Counter[str] = Counter()
        for text in texts:
            seen.update(_WORD.findall(text))
        forms: dict[str, list[tuple[int, str]]] = {}
        for form, count in seen.items():
            forms.setdefault(fold(form), []).append((count, form))
        counts = Counter({folded: sum(c for c, _form in each) for folded, each in forms.items()})
        kept = dict(counts.most_common(MOST_WORDS))
        return cls({folded: _usual(forms[folded]) for folded in kept}, kept)

    def knows(self, folded: str) -> bool:
        return folded in self.forms or any(language_words(code).has(folded) for code in LANGUAGES)

    def spelled(self, folded: str, language: str) -> str:
        """How a known word is written with its accents, in a text of this language (empty: not shown); empty: as it is."""
        own = self.forms.get(folded, "")
        is_accented = bool(own) and fold(own) != own.lower()
        codes = (language,) if language else LANGUAGES
        known = [words for words in map(language_words, codes) if words.has(folded)]
        usual = [words.spelled(folded) for words in known]
        if not all(usual):
            return ""
        if is_accented:
            return own
        return usual[0] if usual else ""

    def is_capital(self, folded: str) -> bool:
        """Whether the agent's texts write it with capitals."""
        own = self.forms.get(folded, "")
        return own != own.lower()

    def is_common(self, folded: str) -> bool:
        """Whether it is a word of the agent's, or one that people often use."""
        return folded in self.forms or any(folded in language_words(code).frequent for code in LANGUAGES)

    def mended(self, folded: str, language: str) -> Mending | None:
        """What an unknown word was meant to be: one slip of the finger away."""
        key = folded, language
        if key not in self._mended:
            if len(self._mended) >= _MOST_REMEMBERED:
                self._mended.clear()
            self._mended[key] = self._mend(folded, language)
        return self._mended[key]

    def _mend(self, folded: str, language: str) -> Mending | None:
        if not _SHORTEST_FAULT <= len(folded) <= _LONGEST_FAULT:
            return None
        if not (folded.isascii() and folded.isalpha()):
            return None
        near = _one_slip_away(folded)
        own = near & self.forms.keys()
        codes = (language,) if language else LANGUAGES
        general = Counter[str]()
        for code in codes if len(folded) > _SHORTEST_FAULT else ():
            frequent = language_words(code).frequent
            general.update({word: frequent[word] for word in near & frequent.keys()})
        if not own and not general or _is_variant(folded, own | general.keys(), codes):
            return None
        counts = self.counts if own else general
        best = max(own or general, key=lambda word: (word[0] == folded[0], counts[word], word))
        stems = {light_stem(word, language or "fr") for word in own | general.keys()}
        is_long = len(folded) >= (_SURE_OWN if own else _SURE)
        is_sure = len(stems) == 1 and is_long and best[0] == folded[0]
        return Mending(self.spelled(best, language) or self.forms.get(best, best), is_sure)


def _is_variant(folded: str, near: Iterable[str], codes: Iterable[str]) -> bool:
    """ "neighbour" beside "neighbor": no fault. (French has no second spelling, and its stems hide faults.)"""
    return "en" in codes and any(light_stem(folded, "en") == light_stem(word, "en") for word in near)


#: Of no agent: the words of the languages alone.
NO_WORDS = Vocabulary()


def _usual(forms: Sequence[tuple[int, str]]) -> str:
    """The most frequent form, in small letters where it has any: what begins a sentence is no name."""
    total = sum(count for count, _form in forms)
    small = [each for each in forms if each[1] == each[1].lower()]
    is_small = sum(count for count, _form in small) >= _SMALL_LETTERS * total
    return max(small if is_small else forms)[1]


def _one_slip_away(word: str) -> set[str]:
    """Every text that one letter too many, too few, wrong or exchanged with the next makes of it (P. Norvig's way)."""
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {head + tail[1:] for head, tail in splits if tail}
    found.update(head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1)
    for letter in ascii_lowercase:
        found.update(head + letter + tail for head, tail in splits)
        found.update(head + letter + tail[1:] for head, tail in splits if tail)
    return found
