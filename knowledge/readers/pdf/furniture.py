"""What stands on pages for leafing through them and says nothing itself: running heads, page numbers, lists of
contents.

A running head is found by its place and its return: the outermost lines of a page, at the height where most pages have
one, that recur, name a title of the document, or count its pages.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from knowledge.readers.pdf.layout import Page
from knowledge.readers.pdf.lines import Line
from knowledge.readers.pdf.tables import Table

#: The outermost rows of a page that may be running heads, at each end.
_EDGE_ROWS = 2
#: How far from the top or the bottom they may stand, as a share of the page.
_EDGE = 0.12
#: The share of pages that have a line at one height, from which it is the place of a running head.
_PLACE_SHARE = 0.4
#: How often the same head comes back, anywhere at the edge of a page; and where most pages have one.
_RETURNS = 3
_RETURNS_THERE = 2
_PAGE_NUMBER = re.compile(r"(?:page\s*)?[-–—]?\s*(?:\d{1,4}|[ivxlc]{1,7})\s*(?:(?:/|sur|of)\s*\d{1,4})?\s*[-–—]?", re.I)
_COUNTS = re.compile(r"^\d{1,4}(?=\s)|\b\d{1,4}(?:\s*(?:/|sur|of)\s*\d{1,4})?$")
#: Dots, at least four, that lead to a page number.
_LEADER = re.compile(r"\s*(?:[.·…_]\s?){4,}\s*(?:\d{1,4}|[ivxlc]{1,7})?\s*$")
_DOTS = re.compile(r"\s*(?:[.·…_]\s?){6,}\s*")
#: Lines that lead to titles, from which a page is one of contents.
_CONTENTS_LINES = 3
_CONTENTS = re.compile(
    r"(?:table of |list of )?contents|table des mati[èe]res|sommaire|list of (?:tables|figures)|"
    r"liste des (?:tableaux|figures|illustrations)|inhaltsverzeichnis|[íi]ndice",
    re.I,
)
_NUMBER_AT_END = re.compile(r"\s+(?:\d{1,4}|[ivxlc]{1,7})$")
_CAPTION = re.compile(r"^(?:table|tableau|tabelle|tabla|figure|abbildung|fig\.)\s+[\d.]+\s*[-–—:.]?\s*", re.I)
_NUMBERING = re.compile(
    r"^(?:(?:chapter|chapitre|part|partie|appendix|annexe|section)\s+)?(?:\d+(?:\.\d+)*|[A-Z](?:\.\d+)+|[A-Z]|[IVXLC]+)[.:)]?\s+(?=\S)",
    re.I,
)


@lru_cache(maxsize=4096)
def title_key(text: str) -> str:
    """A title as it is compared: letters and digits, without its number."""
    bare = _NUMBERING.sub("", text)
    return re.sub(r"[\W_]+", "", bare.casefold()) or text.casefold().strip()


def without_furniture(pages: Sequence[Page], titles: Collection[str]) -> None:
    """Take running heads, page numbers and contents off the pages; `titles` are keys of the bookmarks."""
    _drop_running_heads(pages, titles)
    _drop_contents(pages, titles)


def _drop_running_heads(pages: Sequence[Page], titles: Collection[str]) -> None:
    heights: Counter[int] = Counter()
    patterns: Counter[tuple[int, str]] = Counter()
    for page in pages:
        edges = list(_edges(page))
        heights.update({_height(line) for line in edges})
        patterns.update({(_height(line), _pattern(line)) for line in edges})
    filled = sum(bool(page.lines) for page in pages)
    offset = _number_offset(pages)
    for page in pages:
        dropped = set()
        for line in _edges(page):
            place = _height(line)
            if _PAGE_NUMBER.fullmatch(line.text):
                dropped.add(id(line))
                continue
            returns = max(patterns[place + step, _pattern(line)] for step in (-1, 0, 1))
            common = max(heights[place + step] for step in (-1, 0, 1))
            if returns >= max(_RETURNS, 0.5 * filled):
                dropped.add(id(line))
            elif common >= max(_RETURNS, _PLACE_SHARE * filled) and _is_head(
                line, returns, titles, counted=page.number + offset
            ):
                dropped.add(id(line))
        page.items = [item for item in page.items if id(item) not in dropped]


def _number_offset(pages: Sequence[Page]) -> int:
    """What is added to the count of a page to have the number that is printed on it, on most pages."""
    offsets: Counter[int] = Counter()
    for page in pages:
        offsets.update({n - page.number for line in _edges(page) for n in _counts(line)})
    return offsets.most_common(1)[0][0] if offsets else 0


def _counts(line: Line) -> set[int]:
    return {int(digits) for match in _COUNTS.finditer(line.text) for digits in re.findall(r"\d+", match[0])}


def _is_head(line: Line, returns: int, titles: Collection[str], *, counted: int) -> bool:
    """Of a line where running heads stand: whether it comes back, or names a title beside the number of its page."""
    if sum(character.isalpha() for character in line.text) < 3 or line.mono:
        return False
    if returns >= _RETURNS_THERE:
        return True
    bare = _COUNTS.sub("", line.text)
    return counted in _counts(line) and title_key(bare) in titles


def _edges(page: Page) -> Iterator[Line]:
    rows: list[list[Line]] = []
    boxes = sorted(page.items, key=lambda item: item.y0 + item.y1)
    for item in boxes:
        if isinstance(item, Table) or item.turned:
            rows.append([])
        elif rows and rows[-1] and abs(item.middle - rows[-1][0].middle) <= 0.5 * item.size:
            rows[-1].append(item)
        else:
            rows.append([item])
    outer = rows[:_EDGE_ROWS] + rows[max(_EDGE_ROWS, len(rows) - _EDGE_ROWS) :]
    top, bottom = _EDGE * page.height, (1 - _EDGE) * page.height
    yield from (line for row in outer for line in row if line.y1 <= top or line.y0 >= bottom)


def _height(line: Line) -> int:
    return round(line.middle / 3)


def _pattern(line: Line) -> str:
    return re.sub(r"\d+|\b[ivxlc]{1,7}$", "#", line.text.casefold())


def _drop_contents(pages: Sequence[Page], titles: Collection[str]) -> None:
    """Lines that lead to a page of a title which is in the document itself go; other leaders are shortened."""
    known = set(titles)
    for page in pages:
        for line in page.lines:
            if not _leads(line):
                known.add(title_key(_CAPTION.sub("", line.text)))
    for page in pages:
        leading = [line for line in page.lines if _leads(line)]
        found = sum(title_key(_LEADER.sub("", line.text)) in known for line in leading)
        is_contents = found >= max(_CONTENTS_LINES, 0.5 * len(leading)) or any(
            _CONTENTS.fullmatch(line.text) for line in page.lines[:6]
        )
        page.items = list(_without_contents(page, known, is_contents=is_contents))


def _leads(line: Line) -> bool:
    return not line.mono and bool(_LEADER.search(line.text))


def _without_contents(page: Page, known: Collection[str], *, is_contents: bool) -> Iterator[Line | Table]:
    for item in page.items:
        if isinstance(item, Table) or item.mono:
            yield item
            continue
        if is_contents and _CONTENTS.fullmatch(item.text):
            continue
        bare = _LEADER.sub("", item.text) if _leads(item) else item.text
        if bare == item.text and is_contents:
            bare = _NUMBER_AT_END.sub("", item.text)
        if bare != item.text and (not bare or title_key(bare) in known):
            continue
        # What leads to no title may be a price: it keeps its number, unless the page is one of contents.
        item.text = bare if is_contents and _leads(item) else _DOTS.sub(" … ", item.text).strip()
        yield item
