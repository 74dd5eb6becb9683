"""The pieces of a page to written lines, in the order that they are read, without what only serves for leafing through.

The order of the file is kept, as it is the order in which the text was set. A running head is found by its place and
its return; a list of contents by its dots and by the titles that it names.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from knowledge.readers.base import is_leader, leads_to, title_key
from knowledge.readers.pdf.lines import Line
from knowledge.readers.pdf.tables import Table


@dataclass(slots=True)
class Page:
    """What stands on a page, as it was found; `items` are its lines and tables in order."""

    number: int
    width: float
    height: float
    items: list[Line | Table] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        return [item for item in self.items if isinstance(item, Line)]


def arranged(pieces: Sequence[Line], tables: Sequence[Table]) -> list[Line | Table]:
    """Written lines and tables, each table where its first cell comes in the order of the file."""
    places = {id(line): table for table in tables for row in table.lines for line in row}
    items: list[Line | Table] = []
    put: set[int] = set()
    for piece in pieces:
        table = places.get(id(piece))
        last = items[-1] if items else None
        if table is not None:
            if id(table) not in put:
                put.add(id(table))
                items.append(table)
        elif isinstance(last, Line) and _go_on(last, piece):
            items[-1] = _together(last, piece)
        else:
            items.append(piece)
    return items


def _go_on(last: Line, piece: Line) -> bool:
    beside = min(last.y1, piece.y1) - max(last.y0, piece.y0)
    lower = min(last.y1 - last.y0, piece.y1 - piece.y0)
    return beside >= 0.5 * lower and piece.x0 >= last.x1 - last.size and not (last.turned or piece.turned)


def _together(last: Line, piece: Line) -> Line:
    size = max(last, piece, key=lambda line: len(line.text)).size
    y0, y1 = min(last.y0, piece.y0), max(last.y1, piece.y1)
    text, bold = f"{last.text} {piece.text}", last.bold and piece.bold
    filled = last.filled or piece.filled
    return replace(last, filled=filled, text=text, y0=y0, x1=piece.x1, y1=y1, size=size, bold=bold)


#: The outermost rows of a page that may be running heads, at each end.
_EDGE_ROWS = 2
#: How far from the top or the bottom they may stand, as a share of the page.
_EDGE = 0.12
#: The share of pages that have a line at one height, from which it is the place of a running head.
_PLACE_SHARE = 0.4
#: Pages that have a line there at the least, and how often the same comes back.
_RETURNS = 3
_RETURNS_THERE = 2
_PAGE_NUMBER = re.compile(r"(?:page\s*)?[-–—]?\s*(?:\d{1,4}|[ivxlc]{1,7})\s*(?:(?:/|sur|of)\s*\d{1,4})?\s*[-–—]?", re.I)
_DOTS = re.compile(r"\s*(?:[.·…_]\s?){6,}\s*")


def drop_running_heads(pages: Sequence[Page]) -> None:
    """Take off page numbers, and lines that come back where many pages have one."""
    heights: Counter[int] = Counter()
    patterns: Counter[tuple[int, str]] = Counter()
    for page in pages:
        edges = list(_edges(page))
        heights.update({_height(line) for line in edges})
        patterns.update({(_height(line), _pattern(line)) for line in edges})
    many = max(_RETURNS, _PLACE_SHARE * sum(bool(page.lines) for page in pages))
    for page in pages:
        dropped = set()
        for line in _edges(page):
            places = [_height(line) + step for step in (-1, 0, 1)]
            is_common = max(heights[place] for place in places) >= many and re.search(r"[^\W\d_]{3}", line.text)
            returns = max(patterns[place, _pattern(line)] for place in places)
            if _PAGE_NUMBER.fullmatch(line.text) or (is_common and returns >= _RETURNS_THERE):
                dropped.add(id(line))
        page.items = [item for item in page.items if id(item) not in dropped]


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


def drop_contents(pages: Sequence[Page]) -> None:
    """Lines that lead to a page of a title which is in the document itself go; other leaders are shortened."""
    lines = [line for page in pages for line in page.lines if not is_leader(line.text)]
    known = {title_key(line.text) for line in lines}
    for page in pages:
        page.items = [item for item in page.items if isinstance(item, Table) or not leads_to(item.text, known)]
        for line in page.lines:
            # What leads to no title may be a price: it keeps its number.
            line.text = _DOTS.sub(" … ", line.text).strip()
