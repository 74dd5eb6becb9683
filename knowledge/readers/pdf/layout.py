"""The pieces of a page to written lines, in the order that they are read.

The order of the file is right almost always, as it is the order in which the text was set. Where it goes back and forth
between two columns of running text, the columns are read one after the other, between what stands across both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from knowledge.readers.pdf.lines import Line
from knowledge.readers.pdf.tables import Table

#: Lines that must begin in one place before it is taken for a column.
_COLUMN_LINES = 6
#: Where across the page a second column may begin.
_COLUMN_FROM, _COLUMN_TO = 0.25, 0.8
#: How full the lines of a column of running text are.
_FULL = 0.7
#: How often the file must go from one column to the other within one row of text.
_BACK_AND_FORTH = 3


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


def arranged(pieces: Sequence[Line], tables: Sequence[Table], width: float) -> list[Line | Table]:
    """Written lines and tables, each table where its first cell comes in the order of the file."""
    places = {id(line): table for table in tables for row in table.lines for line in row}
    kept = [piece for piece in pieces if id(piece) not in places]
    start = _second_column(kept, width)
    if start and _goes_back_and_forth(kept, start):
        return [*_by_column(_in_rows(kept, start), tables, start)]
    items: list[Line | Table] = []
    put: set[int] = set()
    for piece in pieces:
        table = places.get(id(piece))
        if table is None:
            _append(items, piece, start)
        elif id(table) not in put:
            put.add(id(table))
            items.append(table)
    return items


def _append(items: list[Line | Table], piece: Line, start: float) -> None:
    last = items[-1] if items else None
    if isinstance(last, Line) and _go_on(last, piece) and not _parted(last, piece, start):
        items[-1] = _together(last, piece)
    else:
        items.append(piece)


def _go_on(last: Line, piece: Line) -> bool:
    beside = min(last.y1, piece.y1) - max(last.y0, piece.y0)
    lower = min(last.y1 - last.y0, piece.y1 - piece.y0)
    return beside >= 0.5 * lower and piece.x0 >= last.x1 - last.size and not (last.turned or piece.turned)


def _parted(last: Line, piece: Line, start: float) -> bool:
    return bool(start) and last.x1 <= start + 2 and piece.x0 >= start - 2


def _together(last: Line, piece: Line) -> Line:
    mono = last.mono and piece.mono
    letter = (last.x1 - last.x0) / max(len(last.text), 1)
    spaces = max(1, min(round((piece.x0 - last.x1) / letter), 40)) if mono and letter > 0 else 1
    is_main = len(last.text) >= len(piece.text)
    return Line(
        last.text + " " * spaces + piece.text,
        last.x0,
        min(last.y0, piece.y0),
        piece.x1,
        max(last.y1, piece.y1),
        last.size if is_main else piece.size,
        last.page,
        bold=last.bold and piece.bold,
        mono=mono,
    )


def _second_column(pieces: Sequence[Line], width: float) -> float:
    """Where a second column of running text begins on a page of this width, else 0."""
    starts: dict[int, list[Line]] = {}
    for piece in pieces:
        if _COLUMN_FROM * width < piece.x0 < _COLUMN_TO * width and not piece.turned:
            starts.setdefault(round(piece.x0 / 4), []).append(piece)
    if not starts:
        return 0.0
    best = max(starts.values(), key=len)
    start = min(piece.x0 for piece in best)
    left = [piece for piece in pieces if piece.x1 <= start + 1]
    right = [piece for piece in pieces if piece.x0 >= start - 1]
    across = len(pieces) - len(left) - len(right)
    if min(len(left), len(right)) < _COLUMN_LINES or across > 0.4 * len(pieces):
        return 0.0
    return start if _is_prose(left) and _is_prose(right) else 0.0


def _is_prose(column: Sequence[Line]) -> bool:
    full = max(line.x1 for line in column) - min(line.x0 for line in column)
    return median(line.x1 - line.x0 for line in column) >= _FULL * full


def _goes_back_and_forth(pieces: Sequence[Line], start: float) -> bool:
    times = sum(
        _go_on(last, piece) and _parted(last, piece, start) for last, piece in zip(pieces, pieces[1:], strict=False)
    )
    return times >= _BACK_AND_FORTH


def _in_rows(pieces: Sequence[Line], start: float) -> list[Line]:
    items: list[Line | Table] = []
    for piece in pieces:
        _append(items, piece, start)
    return [item for item in items if isinstance(item, Line)]


def _by_column(lines: Sequence[Line], tables: Sequence[Table], start: float) -> list[Line | Table]:
    """Down the left, then down the right, between the items that stand across both."""
    ordered: list[Line | Table] = []
    left: list[Line | Table] = []
    right: list[Line | Table] = []
    items: list[Line | Table] = [*lines, *tables]
    for item in sorted(items, key=lambda item: item.y0):
        if item.x1 <= start + 1:
            left.append(item)
        elif item.x0 >= start - 1:
            right.append(item)
        else:
            ordered += [*left, *right, item]
            left, right = [], []
    return [*ordered, *left, *right]
