"""Acronyms and their long forms: `spelled_out` finds them in a text (« reconnaissance de la qualité de travailleur
handicapé (RQTH) », and the other way round), `Forms` exchanges one for the other in a question.

After Schwartz and Hearst, "A simple algorithm for identifying abbreviation definitions in biomedical text" (2003), but
stricter, because what is found here makes two questions the same: every letter begins a word, and every word but the
small ones has a letter. Pure.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from knowledge.language.spelling import Phrases
from knowledge.language.words import fold, word_class

#: Letters and digits of a short form; theirs are 2 to 10 characters.
MIN_LETTERS, MAX_LETTERS = 2, 10
#: Characters of a long form: a longer one is a sentence.
MAX_LONG = 200
_SHORT = r"(?:[A-ZÀ-Ý][.]){2,10}|[A-ZÀ-Ý][A-Za-zÀ-ÿ0-9&/-]{1,11}"
_SHORT_IN_BRACKETS = re.compile(rf"\(\s*[«\"“]?\s*({_SHORT})\s*[»\"”]?\s*(?:[,;][^()]*)?\)")
_LONG_IN_BRACKETS = re.compile(rf"(?<![\w.])({_SHORT})\s*\(([^()]{{6,{MAX_LONG}}})\)")
#: What a long form never reaches across.
_END = re.compile(r"[.!?;:()\[\]|•]\s|\n\s*\n|\n\s*[-*#|]|[()\[\]|]")
_WORD = re.compile(r"[^\W_]+")
_SMALL = word_class("stop_words")


@dataclass(frozen=True, slots=True)
class Form:
    """A pair of interchangeable forms. `is_confirmed`: staff confirmed or wrote it."""

    short: str
    long: str
    is_confirmed: bool = False


def spelled_out(text: str) -> list[Form]:
    """Every acronym that the text spells out, once, in its order, with its long form, each as it is written first."""
    found: dict[tuple[str, str], Form] = {}
    for match in _SHORT_IN_BRACKETS.finditer(text):
        before = text[max(match.start() - MAX_LONG, 0) : match.start()]
        _add(found, match[1], _ending_long(match[1], before))
    for match in _LONG_IN_BRACKETS.finditer(text):
        _add(found, match[1], _whole_long(match[1], re.split(r"[,;:]", match[2])[0]))
    return list(found.values())


def letters_of(short: str) -> str:
    """The letters and digits of a short form, folded: « R.Q.T.H. » is « rqth »."""
    return "".join(filter(str.isalnum, fold(short)))


def _add(found: dict[tuple[str, str], Form], short: str, long: str) -> None:
    if long:
        pair = Form(short.strip(" -/&"), " ".join(long.split()))
        found.setdefault((letters_of(pair.short), fold(pair.long)), pair)


def _is_acronym(short: str) -> bool:
    """Whether it may be one: of two letters, both are capitals."""
    letters = letters_of(short)
    return MIN_LETTERS <= len(letters) <= MAX_LETTERS and (len(letters) > MIN_LETTERS or short[1:] != short[1:].lower())


def _ending_long(short: str, before: str) -> str:
    """The shortest end of the text before the brackets that the short form abbreviates."""
    if not _is_acronym(short):
        return ""
    start = max((match.end() for match in _END.finditer(before)), default=0)
    words = list(_WORD.finditer(before, start))
    letters = letters_of(short)
    for at in range(len(words) - 1, -1, -1):
        taken = [fold(word[0]) for word in words[at:]]
        if sum(word not in _SMALL for word in taken) > len(letters):
            break
        if _is_long_of(letters, taken):
            return before[words[at].start() :].strip(" «»\"“”'’,")
    return ""


def _whole_long(short: str, inside: str) -> str:
    """Return the long form in brackets that the short form before them abbreviates, else an empty text."""
    words = [fold(word) for word in _WORD.findall(inside)]
    letters = letters_of(short)
    while words and words[0] in _SMALL and not words[0].startswith(letters[:1]):
        inside = inside[inside.lower().find(words[0][:1]) + len(words[0]) :].lstrip(" '’")
        words = words[1:]
    return inside.strip(" «»\"“”'’") if _is_acronym(short) and _is_long_of(letters, words) else ""


def _is_long_of(letters: str, words: Sequence[str]) -> bool:
    """Whether each of several words has its letter, in order; a small word may have none, if it is not the first."""
    if len(words) < 2 or words[0] in _SMALL:
        return False
    at = {0}
    for word in words:
        after = {place + 1 for place in at if place < len(letters) and word[0] == letters[place]}
        at = after | (at if word in _SMALL else set())
        if not at:
            return False
    return len(letters) in at


_SHORTEST_IN_ANY_CASE = 3
_PLURAL_FROM = 4


def _is_written_as(acronym: str, written: str, *, in_capitals: bool) -> bool:
    """Whether a word of a text, which is `in_capitals` or not, is the acronym: « après » is no plural of APRE."""
    if acronym in _SMALL or len(acronym) < _SHORTEST_IN_ANY_CASE:
        return written.isupper() and not in_capitals
    return fold(written) == acronym or written[:-1].isupper()


@dataclass(frozen=True)
class Forms:
    """The forms of one agent, or of the agents of one deployment."""

    pairs: tuple[Form, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def other_reading(self, text: str) -> str:
        """The text with each form replaced by the other; empty where it has none, or spells one out."""
        if "(" in text and spelled_out(text):
            return ""
        _to_short, both_ways = self._swaps
        swapped = _swapped(text, both_ways)
        return "" if swapped == text else swapped

    def one_writing(self, text: str) -> str:
        """The text with each long form made short: texts that differ by their forms alone become equal."""
        to_short, _both_ways = self._swaps
        return _swapped(text, to_short)

    def unite(self, first: str, second: str) -> bool:
        """Whether the forms change one of the two texts, so that they may agree by a form only."""
        return self.one_writing(first) != first or self.one_writing(second) != second

    @cached_property
    def _swaps(self) -> "tuple[_Swaps, _Swaps]":
        return _swaps_of(self.pairs)


#: The form that replaces some words, and the acronym as which they must be written, if they are one.
_Swaps = Phrases[tuple[str, str]]


@lru_cache(maxsize=32)
def _swaps_of(pairs: tuple[Form, ...]) -> tuple[_Swaps, _Swaps]:
    """Each long form to its short one, and each form to the other; forms are read anew each second, and seldom change."""
    to_short: dict[str, tuple[str, str]] = {}
    to_long: dict[str, tuple[str, str]] = {}
    for pair in _unambiguous(pairs):
        short, long, words = _keys(pair.short), _keys(pair.long), _WORD.findall(pair.short)
        if short != long:
            to_short.setdefault(" ".join(long), (pair.short, ""))
            to_long.setdefault(" ".join(short), (pair.long, fold(words[0]) if len(words) == 1 else ""))
    return Phrases(to_short), Phrases({**to_long, **to_short})


def _swapped(text: str, swaps: _Swaps) -> str:
    words = list(_WORD.finditer(text))
    keys = [_key(word[0]) for word in words]
    in_capitals = text.isupper()
    pieces: list[str] = []
    end = at = 0
    while at < len(words):
        length = swaps.length_at(keys, at)
        other, acronym = swaps.read_as(keys[at : at + length]) if length else ("", "")
        if not length or (acronym and not _is_written_as(acronym, words[at][0], in_capitals=in_capitals)):
            at += 1
            continue
        pieces += [text[end : words[at].start()], other]
        at += length
        end = words[at - 1].end()
    return "".join([*pieces, text[end:]])


NO_FORMS = Forms()


def same_form(first: str, second: str) -> bool:
    """Whether two long forms differ by case, accents, plurals and small words alone, or one only says more."""
    one, two = _content(first), _content(second)
    return one <= two or two <= one


def _unambiguous(pairs: Iterable[Form]) -> list[Form]:
    """One form for each short one; of several, the one that staff confirmed; none where that leaves several."""
    by_short: defaultdict[tuple[str, ...], list[Form]] = defaultdict(list)
    for pair in pairs:
        by_short[_keys(pair.short)].append(pair)
    kept = []
    for forms in by_short.values():
        confirmed = [form for form in forms if form.is_confirmed] or forms
        if all(same_form(form.long, confirmed[0].long) for form in confirmed):
            kept += confirmed
    return kept


def _keys(text: str) -> tuple[str, ...]:
    return tuple(_key(word) for word in _WORD.findall(text))


def _key(word: str) -> str:
    folded = fold(word)
    is_plural = len(folded) >= _PLURAL_FROM and folded[-1] in "sx"
    return folded[:-1] if is_plural else folded


def _content(text: str) -> frozenset[str]:
    return frozenset(_key(word) for word in _WORD.findall(fold(text)) if word not in _SMALL)
