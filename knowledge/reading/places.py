"""Where each passage stands on the pages of its document.

Passages are cut from the text alone; their places are found afterwards, by walking once through the lines of the
document and the letters of the passages, which come in one order. So the cutting knows nothing of pages, and what it
adds (a table's header, a title in bold) or mends (a word cut at a line's end) is passed over.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from knowledge.parsing.base import ParsedDocument, PlacedLine
from knowledge.reading.chunking import ChunkDraft, Place

#: How many letters may be passed over to find a line, for each letter of it; a short line might be found anywhere.
_AHEAD = 40
_FARTHEST = 6_000
#: Lines whose boxes are this near, in heights of a line, are one box.
_NEAR = 1.2
#: Boxes of one passage; of more, each page has one.
_MOST_BOXES = 24
_PRECISION = 4
_SIGNS = re.compile(r"[\W_]+")


def placed_chunks(drafts: Sequence[ChunkDraft], parsed: ParsedDocument) -> list[ChunkDraft]:
    """The drafts with their places. One that was not found has the page of the one before, and no box on it."""
    if not parsed.lines:
        return list(drafts)
    found: list[list[PlacedLine]] = [[] for _draft in drafts]
    for index, line in _owners(drafts, parsed.lines):
        found[index].append(line)
    placed: list[ChunkDraft] = []
    page = parsed.lines[0].page
    for draft, lines in zip(drafts, found, strict=True):
        places = _places(lines) or (Place(page),)
        page = places[-1].page
        placed.append(replace(draft, places=places))
    return placed


def _owners(drafts: Sequence[ChunkDraft], lines: Sequence[PlacedLine]) -> Iterator[tuple[int, PlacedLine]]:
    """Each line with the draft that holds it, or both that it is cut between."""
    texts = [_letters(draft.content) for draft in drafts]
    ends = list(accumulate(map(len, texts)))
    walk = _Walk("".join(texts))
    for line in lines:
        letters = _letters(line.text)
        start = walk.find(letters, is_title=line.is_title)
        if start < 0:
            continue
        first, last = (bisect_right(ends, at) for at in (start, start + len(letters) - 1))
        for index in range(first, last + 1):
            yield index, line


class _Walk:
    """A place in the letters of all passages, which goes on with each line that is found."""

    def __init__(self, letters: str) -> None:
        self._letters = letters
        self._at = 0
        #: Where the walk was before it last passed something over: a line found too far ahead is made good from there.
        self._before = 0

    def find(self, line: str, *, is_title: bool) -> int:
        if not line:
            return -1
        if self._letters.startswith(line, self._at):
            return self._go(self._at, line)
        if is_title:
            # It stands above its passages; in them only where it follows at once.
            return -1
        ahead = min(_AHEAD * len(line), _FARTHEST)
        for origin in (self._at, self._before):
            found = self._letters.find(line, origin, origin + ahead + len(line))
            if found >= 0:
                self._before = origin
                return self._go(found, line)
        return -1

    def _go(self, start: int, line: str) -> int:
        self._at = start + len(line)
        return start


def _letters(text: str) -> str:
    return _SIGNS.sub("", text.casefold())


def _places(lines: Sequence[PlacedLine]) -> tuple[Place, ...]:
    """Boxes around lines that follow one another closely, in order."""
    places: list[Place] = []
    for line in lines:
        place = Place(line.page, *(round(min(max(x, 0.0), 1.0), _PRECISION) for x in line.box))
        if places and _is_near(places[-1], place, line.box[3] - line.box[1]):
            places[-1] = _around(places[-1], place)
        else:
            places.append(place)
    if len(places) <= _MOST_BOXES:
        return tuple(places)
    pages: dict[int, Place] = {}
    for place in places:
        known = pages.get(place.page)
        pages[place.page] = _around(known, place) if known else place
    return tuple(pages.values())


def _is_near(last: Place, place: Place, height: float) -> bool:
    return (
        last.page == place.page
        and min(last.x1, place.x1) > max(last.x0, place.x0)
        and -height <= place.y0 - last.y1 <= _NEAR * height
    ) or (last.page == place.page and abs(last.y1 - place.y1) < 0.5 * height and place.x0 >= last.x0)


def _around(one: Place, other: Place) -> Place:
    return Place(one.page, min(one.x0, other.x0), min(one.y0, other.y0), max(one.x1, other.x1), max(one.y1, other.y1))
