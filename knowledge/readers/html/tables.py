"""Tables of HTML as rows of text: merged cells are given in each row and column they cover, several rows of headings
are one.
"""

import re
from collections.abc import Callable, Sequence

from bs4 import Tag
from django.conf import settings

from knowledge.readers.html.tree import attribute, nearest, tags_named

#: A cell that claims to cover more columns or rows than this covers as many.
_MOST_SPANNED = 100
#: More rows of headings than this are content.
_MOST_HEADER_ROWS = 4
_ROLES = frozenset(["presentation", "none"])


def rows_of(table: Tag) -> list[list[Tag]]:
    rows = [
        [cell for cell in row.children if isinstance(cell, Tag) and cell.name in ("td", "th")]
        for row in nearest(table, ("tr",), closed=("table",))
    ]
    return [row for row in rows if row]


def is_for_layout(table: Tag, rows: Sequence[Sequence[Tag]]) -> bool:
    """Whether cells only place things on the page: other tables, code of several lines, or one column without a
    heading.
    """
    if attribute(table, "role") in _ROLES or tags_named(table, ("table",)):
        return True
    if any("\n" in block.get_text().strip() for block in tags_named(table, ("pre",))):
        return True
    return is_single(rows) and not (len(rows) > 1 and _is_header(rows[0]))


def is_single(rows: Sequence[Sequence[Tag]]) -> bool:
    return max((len(row) for row in rows), default=0) < 2


def _is_header(row: Sequence[Tag]) -> bool:
    group = row[0].parent.parent if row[0].parent is not None else None
    return (group is not None and group.name == "thead") or all(cell.name == "th" for cell in row)


def grid(rows: Sequence[Sequence[Tag]], text_of: Callable[[Tag], str]) -> list[list[str]]:
    """The texts of a table, its rows of headings as the first; a covered place says what its cell says in a heading or
    below it.
    """
    covered = sum(_span(c, "rowspan") * _span(c, "colspan") for row in rows for c in row)
    spans = covered <= settings.MAX_FILLED_CELLS
    filled: list[list[str]] = []
    held: dict[int, tuple[str, int]] = {}
    for row in rows:
        line: list[str] = []
        for cell in row:
            _take_held(line, held)
            text, is_header = text_of(cell), _is_header(row)
            below = _span(cell, "rowspan") - 1 if spans else 0
            for column in range(_span(cell, "colspan") if spans else 1):
                said = text if is_header or not column else ""
                if below:
                    held[len(line)] = (said, below)
                line.append(said)
        _take_held(line, held)
        filled.append(line)
    count = 0
    while count < min(len(rows) - 1, _MOST_HEADER_ROWS) and _is_header(rows[count]):
        count += 1
    return [_one_header(filled[:count]), *filled[count:]] if count > 1 else filled


def _take_held(line: list[str], held: dict[int, tuple[str, int]]) -> None:
    """Cells of rows above that reach down to here."""
    while len(line) in held:
        text, rows = held.pop(len(line))
        if rows > 1:
            held[len(line)] = (text, rows - 1)
        line.append(text)


def _span(cell: Tag, name: str) -> int:
    value = attribute(cell, name).strip()
    return min(max(int(value), 1), _MOST_SPANNED) if re.fullmatch(r"[0-9]{1,9}", value) else 1


def _one_header(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of headings as one: what each column is called, from the outermost in."""
    width = max(map(len, rows))
    columns = [[row[column] if column < len(row) else "" for row in rows] for column in range(width)]
    return [" / ".join(dict.fromkeys(filter(None, names))) for names in columns]
