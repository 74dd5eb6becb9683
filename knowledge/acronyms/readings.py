"""What a table of forms makes of a text: its other reading, and one writing for both forms. Pure.

An acronym with two long forms in one agent proves nothing: neither form is read as the other, unless staff confirmed
one of them alone. Forms are found as whole words, whatever their case, accents and plurals; an acronym that is also a
small word (« PAS », "US"), or has two letters, only in capitals inside a text that is not all capitals.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from knowledge.acronyms.finding import spelled_out
from knowledge.language.classes import word_class
from knowledge.language.folding import fold

_WORD = re.compile(r"[^\W_]+")
_SMALL = word_class("stop_words")
_SHORTEST_IN_ANY_CASE = 3
_PLURAL_FROM = 4


@dataclass(frozen=True, slots=True)
class Form:
    """A pair that answers for each other. `is_confirmed`: a person said so, or wrote it."""

    short: str
    long: str
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class _Swap:
    """What stands in the place of these words. An acronym's own writing is compared as well: « après » is no plural of
    APRE.
    """

    words: tuple[str, ...]
    other: str
    acronym: str = ""

    def fits(self, keys: Sequence[str], written: str, *, in_capitals: bool) -> bool:
        """Whether the words begin here; `written` is the first as it stands in a text that is all `in_capitals`, or
        not.
        """
        if tuple(keys[: len(self.words)]) != self.words:
            return False
        if not self.acronym:
            return True
        if self.acronym in _SMALL or len(self.acronym) < _SHORTEST_IN_ANY_CASE:
            return written.isupper() and not in_capitals
        return fold(written) == self.acronym or written[:-1].isupper()


@dataclass(frozen=True)
class Forms:
    """The forms of one agent, or of the agents of one deployment."""

    pairs: tuple[Form, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def other_reading(self, text: str) -> str:
        """The text with each form in the place of the other; empty where it holds none, or spells one out itself."""
        if "(" in text and spelled_out(text):
            return ""
        swapped = _swapped(text, self._both_ways)
        return "" if swapped == text else swapped

    def other_readings(self, texts: Iterable[str]) -> list[str]:
        """Those that the texts have."""
        return [other for text in texts if (other := self.other_reading(text))]

    def one_writing(self, text: str) -> str:
        """The text with the short form for both: two texts that differ by their forms alone become equal."""
        return _swapped(text, self._to_short)

    def unite(self, first: str, second: str) -> bool:
        """Whether one of the two texts has another writing, so that they may agree by it alone."""
        return self.one_writing(first) != first or self.one_writing(second) != second

    @cached_property
    def _to_short(self) -> Mapping[str, list[_Swap]]:
        return _swaps_to_short(self.pairs)

    @cached_property
    def _both_ways(self) -> Mapping[str, list[_Swap]]:
        return _swaps_both_ways(self.pairs)


#: Tables are read anew each second, and nearly always say the same: 10 ms for 100 pairs.
_tables_of_pairs = lru_cache(maxsize=32)


@_tables_of_pairs
def _swaps_to_short(pairs: tuple[Form, ...]) -> Mapping[str, list[_Swap]]:
    return _by_first(_Swap(_keys(pair.long), pair.short) for pair in _unambiguous(pairs))


@_tables_of_pairs
def _swaps_both_ways(pairs: tuple[Form, ...]) -> Mapping[str, list[_Swap]]:
    sure = _unambiguous(pairs)
    to_long = (_Swap(_keys(p.short), p.long, _acronym(p.short)) for p in sure)
    return _by_first([*(_Swap(_keys(p.long), p.short) for p in sure), *to_long])


def _acronym(short: str) -> str:
    """The folded word that a short form is; empty where it has several."""
    words = _WORD.findall(short)
    return fold(words[0]) if len(words) == 1 else ""


def _by_first(swaps: Iterable[_Swap]) -> Mapping[str, list[_Swap]]:
    """The swaps by their first word, the longest first."""
    found: defaultdict[str, list[_Swap]] = defaultdict(list)
    for swap in sorted(swaps, key=lambda swap: -len(swap.words)):
        if swap.words and swap.words != _keys(swap.other):
            found[swap.words[0]].append(swap)
    return dict(found)


def _swapped(text: str, by_first: Mapping[str, list[_Swap]]) -> str:
    if not by_first:
        return text
    words = list(_WORD.finditer(text))
    keys = [_key(word[0]) for word in words]
    in_capitals = text.isupper()
    pieces: list[str] = []
    end = at = 0
    while at < len(words):
        here = by_first.get(keys[at], ())
        written = words[at][0]
        swap = next((s for s in here if s.fits(keys[at : at + len(s.words)], written, in_capitals=in_capitals)), None)
        if swap is None:
            at += 1
            continue
        pieces += [text[end : words[at].start()], swap.other]
        at += len(swap.words)
        end = words[at - 1].end()
    return "".join([*pieces, text[end:]])


NO_FORMS = Forms()


def same_form(first: str, second: str) -> bool:
    """Whether two writings of a long form differ by case, accents, plurals and small words alone, or one only says
    more.
    """
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
