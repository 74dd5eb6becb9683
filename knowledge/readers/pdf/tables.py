"""Tables of a page: what its rules enclose as cells, and rows whose columns the white space parts.

A cell that goes over several rows is repeated in each, so that every row says what it is about; over several columns it
stands in the first.
"""

import ctypes
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pypdfium2.raw as pdfium

from knowledge.readers.pdf.lines import Line, PageFrame

#: A filled box that is no thicker is a rule itself.
_THICK = 3.0
#: Shorter ones are marks, underlines of a letter, parts of a drawing.
_SHORT = 4.0
#: Rules nearer than this are one.
NEAR = 2.5
#: A page with more is a drawing, and is not searched for tables.
_MOST_OBJECTS = 20_000
_MOST_RULES = 1_500
#: Drawings within drawings, as far as they are followed.
_DEPTH = 3


@dataclass(slots=True)
class Rule:
    """At `at`, from `start` to `end`: x then y for an upright one, y then x for a level one."""

    at: float
    start: float
    end: float


@dataclass(slots=True)
class Rules:
    level: list[Rule] = field(default_factory=list)
    upright: list[Rule] = field(default_factory=list)

    def add(self, x0: float, y0: float, x1: float, y1: float) -> None:
        if abs(y1 - y0) <= _THICK and abs(x1 - x0) >= _SHORT:
            self.level.append(Rule((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
        elif abs(x1 - x0) <= _THICK and abs(y1 - y0) >= _SHORT:
            self.upright.append(Rule((x0 + x1) / 2, min(y0, y1), max(y0, y1)))


def page_rules(page: Any, frame: PageFrame) -> Rules:
    """The rules of a page, those in one line joined; none where it is a drawing."""
    rules = Rules()
    paths = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=_DEPTH)
    for count, item in enumerate(paths):
        if count >= _MOST_OBJECTS or len(rules.level) + len(rules.upright) > 4 * _MOST_RULES:
            return Rules()
        _add_path(rules, item, frame)
    joined = Rules(_joined(rules.level), _joined(rules.upright))
    return joined if len(joined.level) + len(joined.upright) <= _MOST_RULES else Rules()


def _add_path(rules: Rules, item: Any, frame: PageFrame) -> None:
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, fill, stroke)
    if not fill.value and not stroke.value:
        return
    matrix, around = item.get_matrix(), item.container
    while around is not None:
        matrix, around = matrix.multiply(around.get_matrix()), around.container
    corners = [frame.point(*matrix.on_point(*point)) for point in _corners(item)]
    if not corners:
        return
    xs, ys = [x for x, _y in corners], [y for _x, y in corners]
    x0, x1, y0, y1 = min(xs), max(xs), min(ys), max(ys)
    if min(x1 - x0, y1 - y0) <= _THICK:
        rules.add(x0, y0, x1, y1)
        return
    for (ax, ay), (bx, by) in zip(corners, corners[1:], strict=False):
        if abs(ax - bx) < 1 or abs(ay - by) < 1:
            rules.add(ax, ay, bx, by)


def _corners(item: Any) -> list[tuple[float, float]]:
    """The points of a path of straight lines; none where it has curves, or many parts."""
    x, y = ctypes.c_float(), ctypes.c_float()
    corners: list[tuple[float, float]] = []
    count = pdfium.FPDFPath_CountSegments(item)
    if not 0 < count <= 500:
        return []
    for index in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(item, index)
        if pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_BEZIERTO:
            return []
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        corners.append((x.value, y.value))
        if pdfium.FPDFPathSegment_GetClose(segment) and corners:
            corners.append(corners[0])
    return corners


def _joined(rules: list[Rule]) -> list[Rule]:
    """Rules at nearly one place as one each, with what touches in one line joined."""
    joined: list[Rule] = []
    group: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.at):
        if group and rule.at - group[0].at > NEAR:
            joined.extend(_end_to_end(group))
            group = []
        group.append(rule)
    joined.extend(_end_to_end(group))
    return joined


def _end_to_end(group: list[Rule]) -> list[Rule]:
    if not group:
        return []
    at = sum(rule.at for rule in group) / len(group)
    found: list[Rule] = []
    for rule in sorted(group, key=lambda rule: rule.start):
        if found and rule.start <= found[-1].end + NEAR:
            found[-1].end = max(found[-1].end, rule.end)
        else:
            found.append(Rule(at, rule.start, rule.end))
    return found


#: More slots than this are squared paper or a drawing.
_MOST_SLOTS = 20_000
#: White space, in sizes of the letters, that parts two columns.
_GUTTER = 0.4
#: Lines of two columns of running text are longer than most cells, in characters.
_PROSE = 34
#: Of a table without rules: white space between two rows, in sizes of the letters; how much of its width is written;
#: lines of a cell.
_ROW_GAP, _MOST_FILLED, _MOST_LINES = 1.6, 0.65, 8
#: How much of a slot's side a rule must run along to close it.
_CLOSED = 0.5


@dataclass(slots=True)
class Table:
    """Rows of cells, with the lines that each row is made of; its box in points of its page."""

    rows: list[list[str]]
    lines: list[list[Line]]
    page: int
    x0: float
    y0: float
    x1: float
    y1: float
    columns: tuple[float, ...] = ()


def page_tables(lines: Sequence[Line], rules: Rules) -> list[Table]:
    """The tables of a page, from top to bottom; none overlaps another."""
    tables: list[Table] = []
    ruled = (_Grid(part).table(lines) for part in _connected(rules))
    for found in (*filter(None, ruled), *_unruled(lines)):
        if not any(_overlap(found, table) for table in tables):
            tables.append(found)
    return sorted(tables, key=lambda table: (table.y0, table.x0))


def _overlap(one: Table, other: Table) -> bool:
    return min(one.x1, other.x1) - max(one.x0, other.x0) > NEAR and min(one.y1, other.y1) - max(one.y0, other.y0) > NEAR


def _connected(rules: Rules) -> list[Rules]:
    """Rules that touch one another, by group, each in the order of the page."""
    groups: list[Rules] = []
    left = list(rules.upright)
    for level in rules.level:
        touching = [rule for rule in left if _touch(level, rule)]
        left = [rule for rule in left if not _touch(level, rule)]
        joined = [group for group in groups if any(_touch(level, rule) for rule in group.upright)]
        groups = [group for group in groups if group not in joined]
        groups.append(
            Rules(
                [*(rule for group in joined for rule in group.level), level],
                [*(rule for group in joined for rule in group.upright), *touching],
            )
        )
    return [group for group in groups if group.upright]


def _touch(level: Rule, upright: Rule) -> bool:
    return (
        level.start - NEAR <= upright.at <= level.end + NEAR and upright.start - NEAR <= level.at <= upright.end + NEAR
    )


class _Grid:
    """The slots between touching rules, joined to cells where no rule parts them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._xs = _rule_places(rules.upright, rules.level)
        self._ys = _rule_places(rules.level, rules.upright)

    def table(self, lines: Sequence[Line]) -> Table | None:
        xs, ys = self._xs, self._ys
        columns, rows = len(xs) - 1, len(ys) - 1
        if columns < 2 or rows < 1 or columns * rows > _MOST_SLOTS:
            return None
        inside = [line for line in lines if not line.turned and _is_in(line, xs, ys)]
        if len({line.middle for line in inside}) < 2:
            return None
        if len(self._rules.level) <= 3 and rows <= 2:
            # Only the header is ruled off: the rows are those of the text.
            return _by_text(text_rows(inside), xs, (xs[0], ys[0], xs[-1], ys[-1]))
        cells = self._cells(inside)
        texts: dict[int, list[Line]] = {}
        for line in inside:
            texts.setdefault(cells[self._slot(line)], []).append(line)
        if len(texts) < 2 or rows < 2:
            return None
        return self._written(cells, texts, inside[0].page)

    def _slot(self, line: Line) -> int:
        column = bisect_right(self._xs, (line.x0 + min(line.x1, line.x0 + 4)) / 2) - 1
        row = bisect_right(self._ys, line.middle) - 1
        columns, rows = len(self._xs) - 1, len(self._ys) - 1
        return max(0, min(row, rows - 1)) * columns + max(0, min(column, columns - 1))

    def _cells(self, lines: Sequence[Line]) -> list[int]:
        """For each slot, row by row, the first slot of its cell."""
        xs, ys = self._xs, self._ys
        columns = len(xs) - 1
        cells = list(range(columns * (len(ys) - 1)))
        in_row: dict[int, list[Line]] = {}
        for line in lines:
            in_row.setdefault(bisect_right(ys, line.middle) - 1, []).append(line)
        for row in range(len(ys) - 1):
            for column in range(columns):
                slot = row * columns + column
                is_closed = column and _is_closed(self._rules.upright, xs[column], ys[row], ys[row + 1])
                if column and not is_closed and not _is_parted(in_row.get(row, ()), xs[column]):
                    cells[slot] = cells[slot - 1]
                elif row and not _is_closed(self._rules.level, ys[row], xs[column], xs[column + 1]):
                    cells[slot] = cells[slot - columns]
        return cells

    def _written(self, cells: list[int], texts: dict[int, list[Line]], page: int) -> Table:
        columns = len(self._xs) - 1
        rows: list[list[str]] = []
        sources: list[list[Line]] = []
        for start in range(0, len(cells), columns):
            row, own = [], []
            for slot in range(start, start + columns):
                is_first = slot == start or cells[slot] != cells[slot - 1]
                row.append(cell_text(texts.get(cells[slot], [])) if is_first else "")
                if cells[slot] == slot:
                    own.extend(texts.get(slot, []))
            if any(row) and own:
                rows.append(row)
                sources.append(own)
        box = self._xs[0], self._ys[0], self._xs[-1], self._ys[-1]
        return Table(_without_empty_columns(rows), sources, page, *box, tuple(self._xs))


def _without_empty_columns(rows: list[list[str]]) -> list[list[str]]:
    used = [index for index in range(len(rows[0])) if any(row[index] for row in rows)]
    return [[row[index] for index in used] for row in rows]


def _rule_places(rules: Sequence[Rule], across: Sequence[Rule]) -> list[float]:
    """Where rules stand, and where those across them end if that is farther out: an open side."""
    places = [rule.at for rule in rules]
    places += [min(rule.start for rule in across), max(rule.end for rule in across)]
    kept: list[float] = []
    for place in sorted(places):
        if not kept or place - kept[-1] > 2 * NEAR:
            kept.append(place)
    return kept


def _is_in(line: Line, xs: Sequence[float], ys: Sequence[float]) -> bool:
    return xs[0] - NEAR <= (line.x0 + line.x1) / 2 <= xs[-1] + NEAR and ys[0] <= line.middle <= ys[-1]


def _is_closed(rules: Sequence[Rule], at: float, start: float, end: float) -> bool:
    covered = sum(
        max(0.0, min(rule.end, end) - max(rule.start, start)) for rule in rules if abs(rule.at - at) <= 2 * NEAR
    )
    return covered >= _CLOSED * (end - start)


def _is_parted(lines: Sequence[Line], x: float) -> bool:
    """Whether text stands on both sides of a place, cell by cell, and none over it: rows without a ground of their own."""
    sides = [line.x0 >= x - NEAR for line in lines if line.x1 <= x + NEAR or x - NEAR <= line.x0 <= x + line.size]
    is_over = any(line.x0 < x - NEAR and line.x1 > x + NEAR for line in lines)
    return sides == sorted(sides) and len(set(sides)) > 1 and not is_over


def _unruled(lines: Sequence[Line]) -> Iterator[Table]:
    """Tables of white space alone: rows one below the other that have their parts in the same columns, far apart."""
    order = {id(line): at for at, line in enumerate(lines)}
    group: list[list[Line]] = []
    for row in [*text_rows([line for line in lines if not line.turned]), []]:
        near = group and row and row[0].y0 - group[-1][0].y1 <= _ROW_GAP * row[0].size
        is_alone = len(row) == 1 and bool(near) and _is_cell(row[0], group)
        if row and (near or not group) and (len(row) > 1 or is_alone):
            group.append(row)
            continue
        while group and len(group[-1]) < 2 and not _is_within(group[-1], sum(group[:-1], []), order):
            group.pop()
        if table := _spaced_table(group, order):
            yield table
        group = [row] if len(row) > 1 else []


def _is_cell(line: Line, rows: Sequence[Sequence[Line]]) -> bool:
    """Whether a text alone in its row goes on with a cell above it, or names the rows below in the first column."""
    beside = [each.x0 for row in rows[-3:] for each in row if len(row) > 1]
    after = min((x0 for x0 in beside if x0 > line.x0 + 2), default=line.x1)
    return line.x1 <= after and any(abs(each.x0 - line.x0) < 2 for row in rows[-_MOST_LINES:] for each in row)


def _is_within(row: Sequence[Line], above: Sequence[Line], order: Mapping[int, int]) -> bool:
    """Whether the file sets a row before the end of what is above it: lines of the same cells."""
    return min(order[id(line)] for line in row) < max((order[id(line)] for line in above), default=0)


def _cell_by_cell(
    rows: Sequence[list[Line]], starts: Sequence[float], order: Mapping[int, int]
) -> Sequence[list[Line]]:
    """The rows, lines of wrapped cells together where the file is written cell by cell; else as they are."""
    joined: list[list[Line]] = []
    for row in rows:
        if joined and _is_within(row, joined[-1], order):
            joined[-1] = sorted([*joined[-1], *row], key=lambda line: order[id(line)])
        else:
            joined.append(list(row))
    # Two columns of a page are no rows: the file sets the one before the other.
    written = [(number, bisect_right(starts, line.x0 + 1)) for number, row in enumerate(joined) for line in row]
    at = [order[id(line)] for row in joined for line in row]
    return joined if 2 < len(joined) < len(rows) and at == sorted(at) and written == sorted(written) else rows


def _spaced_table(rows: Sequence[list[Line]], order: Mapping[int, int]) -> Table | None:
    cells = [line for row in rows for line in row]
    if len(rows) < 3 or sum(len(row) > 1 for row in rows) < 3:
        return None
    box = min(c.x0 for c in cells), rows[0][0].y0, max(c.x1 for c in cells), max(c.y1 for c in rows[-1])
    starts = _columns(cells)
    wrapped = _cell_by_cell(rows, starts, order)
    columns = [{bisect_right(starts, cell.x0 + 1) for cell in row} for row in wrapped]
    shares = [sum(c.x1 - c.x0 for c in row) / (box[2] - box[0]) for row in rows if len(row) > 1]
    lengths = (
        median(len(c.text) for c in cells if bisect_right(starts, c.x0 + 1) == n + 1) for n in range(len(starts))
    )
    alone = sum(len(row) == len(places) for row, places in zip(wrapped, columns, strict=True))
    filled = sum(2 * len(places) > len(starts) for places in columns)
    # Columns of running text fill their width; words that only stand apart have no columns.
    is_text = median(shares) > _MOST_FILLED or alone < 0.8 * len(rows) or max(lengths) > _PROSE
    if len(starts) < 2 or filled < 0.8 * len(wrapped) or (is_text and wrapped is rows):
        return None
    if not any(re.search(r"\w", cell.text) for row in rows for cell in row[:1]):
        return None  # bullets, far from their items
    return _by_text(wrapped, [*starts, box[2]], box)


def _columns(lines: Sequence[Line]) -> list[float]:
    """Where columns begin: after white space that few lines go through."""
    size = median(line.size for line in lines)
    starts: list[float] = []
    end = -1e9
    for line in sorted(lines, key=lambda line: line.x0):
        if line.x0 - end >= _GUTTER * size:
            starts.append(line.x0 - 1)
        end = max(end, line.x1)
    return starts


def text_rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines that stand beside one another, from top to bottom, each row from left to right."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        if rows and line.middle - rows[-1][0].middle <= 0.5 * max(line.size, 4.0):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.x0) for row in rows]


def _by_text(
    found_rows: Sequence[list[Line]], xs: Sequence[float], box: tuple[float, float, float, float]
) -> Table | None:
    """The rows of the text; one with an empty first column goes on with the row above."""
    rows: list[list[list[Line]]] = []
    above: list[Line] = []
    for found in found_rows:
        cells: list[list[Line]] = [[] for _column in xs[:-1]]
        for line in found:
            column = bisect_right(xs, line.x0 + 1) - 1
            cells[max(0, min(column, len(cells) - 1))].append(line)
        near = bool(above) and found[0].y0 - above[0].y1 <= 0.6 * found[0].size
        if rows and not cells[0] and near:
            for cell, more in zip(rows[-1], cells, strict=True):
                cell.extend(more)
        else:
            rows.append(cells)
        above = found
    if len(rows) < 2:
        return None
    texts = [[cell_text(cell) for cell in row] for row in rows]
    sources = [[line for cell in row for line in cell] for row in rows]
    return Table(_without_empty_columns(texts), sources, above[0].page, *box, tuple(xs))


def cell_text(lines: Sequence[Line]) -> str:
    """Lines of one cell as one, from top to bottom; a word cut at a line's end is put together."""
    text = ""
    for row in text_rows(lines):
        for line in row:
            if text.endswith("-") and text[-2:-1].isalpha() and line.text[0].islower():
                text = text[:-1] + line.text
            else:
                text += f" {line.text}" if text else line.text
    return text
