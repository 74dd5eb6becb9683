"""Three-way merge of a chunk's text and of its questions: what it was, what staff made of it, what the document says
now.

Both sides' changes are kept where they lie apart. Where both changed the same sentence, or the answer to the same
question, there is a conflict: nothing is chosen here, and the caller keeps both versions. Pure, deterministic.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from knowledge.chunking import KnowledgeUnit

_FRAGMENT = re.compile(r".*?(?:(?<=[.!?…;:])[ \t]+|\n+|\Z)", re.DOTALL)

Units = Sequence[KnowledgeUnit]


@dataclass(frozen=True, slots=True)
class Merged:
    """`text` is staff's version where there is a conflict."""

    text: str
    is_conflict: bool = False


@dataclass(frozen=True, slots=True)
class MergedUnits:
    units: tuple[KnowledgeUnit, ...]
    is_conflict: bool = False


def merge_text(base: str, staff: str, new: str) -> Merged:
    """Merge by sentences and lines."""
    if base in (staff, new) or staff == new:
        return Merged(new if staff == base else staff)
    fragments = [[f for f in _FRAGMENT.findall(text) if f] for text in (base, staff, new)]
    merged: list[str] = []
    for old, ours, theirs in _regions(*fragments):
        if ours == theirs or theirs == old:
            merged.extend(ours)
        elif ours == old:
            merged.extend(theirs)
        else:
            return Merged(staff, is_conflict=True)
    return Merged(_joined(merged))


def merge_units(base: Units, staff: Units, new: Units) -> MergedUnits:
    """Merge by question: what staff added, changed or took out stays so, unless the document changed it too."""
    was, theirs = ({unit.question: unit.answer for unit in units} for units in (base, new))
    ours = {unit.question: unit.answer for unit in staff}
    merged: dict[str, str] = {}
    conflict = False
    for question in dict.fromkeys([*ours, *theirs]):
        old, mine, other = was.get(question), ours.get(question), theirs.get(question)
        conflict = conflict or (mine != other and old not in (mine, other))
        kept = other if mine == old else mine
        if kept is not None:
            merged[question] = kept
    if conflict:
        return MergedUnits(tuple(staff), is_conflict=True)
    return MergedUnits(tuple(KnowledgeUnit(q, a) for q, a in merged.items()))


def resemblance(first: str, second: str) -> float:
    """How much of two texts is the same words in the same order, from 0 to 1."""
    matcher = SequenceMatcher(None, first.split(), second.split(), autojunk=False)
    return 0.0 if matcher.quick_ratio() < 0.3 else matcher.ratio()


def _regions(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """The three texts cut where all agree: stretches that are the same in each, and those between them."""
    at_base = at_ours = at_theirs = 0
    for start, in_ours, in_theirs, size in _common(base, ours, theirs):
        yield base[at_base:start], ours[at_ours:in_ours], theirs[at_theirs:in_theirs]
        same = base[start : start + size]
        yield same, same, same
        at_base, at_ours, at_theirs = start + size, in_ours + size, in_theirs + size


def _common(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """(place in base, in ours, in theirs, length) of what both sides left as it was, and the common end."""
    plain = [_stripped(texts) for texts in (base, ours, theirs)]
    with_ours = SequenceMatcher(None, plain[0], plain[1], autojunk=False).get_matching_blocks()
    with_theirs = SequenceMatcher(None, plain[0], plain[2], autojunk=False).get_matching_blocks()
    first = second = 0
    while first < len(with_ours) and second < len(with_theirs):
        a, b = with_ours[first], with_theirs[second]
        start, end = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if start < end:
            yield start, a.b + start - a.a, b.b + start - b.a, end - start
        if a.a + a.size < b.a + b.size:
            first += 1
        else:
            second += 1
    yield len(base), len(ours), len(theirs), 0


def _stripped(texts: Sequence[str]) -> list[str]:
    """White space after a sentence is no change: it depends on what follows."""
    return [text.strip() for text in texts]


def _joined(fragments: Sequence[str]) -> str:
    """The fragments, with a space where two sentences would touch (one of them was the last of its text)."""
    text = ""
    for fragment in fragments:
        text += fragment if not text or text[-1].isspace() else f" {fragment}"
    return text.strip()
