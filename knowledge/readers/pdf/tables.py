"""Tables of a page: what its rules enclose as cells, and rows between level rules whose columns the white space parts.

A cell that goes over several rows is repeated in each, so that every row says what it is about; over several columns it
stands in the first.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from knowledge.readers.pdf.lines import Line
from knowledge.readers.pdf.rules import NEAR, Rule, Rules

#: More slots than this are squared paper or a drawing.
_MOST_SLOTS = 20_000
#: White space, in sizes of the letters, that parts two columns.
_GUTTER = 0.6
#: Lines of two columns of running text are longer than most cells, in characters.
_PROSE = 34
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
    for found in (*_ruled(lines, rules), *_between_rules(lines, rules)):
        if not any(_overlap(found, table) for table in tables):
            tables.append(found)
    return sorted(tables, key=lambda table: (table.y0, table.x0))


def _overlap(one: Table, other: Table) -> bool:
    return min(one.x1, other.x1) - max(one.x0, other.x0) > NEAR and min(one.y1, other.y1) - max(one.y0, other.y0) > NEAR


def _ruled(lines: Sequence[Line], rules: Rules) -> list[Table]:
    found = (_Grid(part) for part in _connected(rules))
    return [table for grid in found if (table := grid.table(lines)) is not None]


def _connected(rules: Rules) -> list[Rules]:
    """Rules that touch one another, by group."""
    count = len(rules.level)
    parents = list(range(count + len(rules.upright)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    for i, level in enumerate(rules.level):
        for j, upright in enumerate(rules.upright, count):
            if _touch(level, upright):
                parents[root(i)] = root(j)
    groups: dict[int, Rules] = {}
    for i, level in enumerate(rules.level):
        groups.setdefault(root(i), Rules()).level.append(level)
    for j, upright in enumerate(rules.upright, count):
        groups.setdefault(root(j), Rules()).upright.append(upright)
    return [group for group in groups.values() if group.level and group.upright]


def _touch(level: Rule, upright: Rule) -> bool:
    return (
        level.start - NEAR <= upright.at <= level.end + NEAR and upright.start - NEAR <= level.at <= upright.end + NEAR
    )


class _Grid:
    """The slots between touching rules, joined to cells where no rule parts them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._xs = _places(rules.upright, rules.level)
        self._ys = _places(rules.level, rules.upright)

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
            return _by_text(inside, xs, (xs[0], ys[0], xs[-1], ys[-1]))
        cells = self._cells()
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

    def _cells(self) -> list[int]:
        """For each slot, row by row, the first slot of its cell."""
        xs, ys = self._xs, self._ys
        columns = len(xs) - 1
        cells = list(range(columns * (len(ys) - 1)))
        for row in range(len(ys) - 1):
            for column in range(columns):
                slot = row * columns + column
                if column and not _is_closed(self._rules.upright, xs[column], ys[row], ys[row + 1]):
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
        return Table(*_without_empty_columns(rows), sources, page, *box, tuple(self._xs))


def _without_empty_columns(rows: list[list[str]]) -> tuple[list[list[str]]]:
    used = [index for index in range(len(rows[0])) if any(row[index] for row in rows)]
    return ([[row[index] for index in used] for row in rows],)


def _places(rules: Sequence[Rule], across: Sequence[Rule]) -> list[float]:
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


def _between_rules(lines: Sequence[Line], rules: Rules) -> list[Table]:
    """Tables whose head and foot are ruled off by level rules of one width, without upright ones."""
    tables: list[Table] = []
    left = sorted(rules.level, key=lambda rule: rule.at)
    while left:
        first = left[0]
        group = [rule for rule in left if _same_width(rule, first)]
        left = [rule for rule in left if not _same_width(rule, first)]
        if len(group) < 3:
            continue
        box = first.start, group[0].at, first.end, group[-1].at
        inside = [line for line in lines if not line.turned and _is_in(line, (box[0], box[2]), (box[1], box[3]))]
        if table := _by_white_space(inside, box):
            tables.append(table)
    return tables


def _same_width(one: Rule, other: Rule) -> bool:
    return abs(one.start - other.start) <= 2 * NEAR and abs(one.end - other.end) <= 2 * NEAR


def _by_white_space(lines: Sequence[Line], box: tuple[float, float, float, float]) -> Table | None:
    rows = text_rows(lines)
    several = [row for row in rows if len(row) > 1]
    if len(several) < 2 or len(several) < 0.5 * len(rows):
        return None
    starts = _columns([line for row in several for line in row])
    if len(starts) < 2 or (len(starts) == 2 and median(len(line.text) for row in several for line in row) > _PROSE):
        return None
    return _by_text(lines, [*starts, box[2]], box)


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


def _by_text(lines: Sequence[Line], xs: Sequence[float], box: tuple[float, float, float, float]) -> Table | None:
    """The rows of the text; one with an empty first column goes on with the row above."""
    rows: list[list[list[Line]]] = []
    above: list[Line] = []
    for found in text_rows(lines):
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
    return Table(*_without_empty_columns(texts), sources, lines[0].page, *box, tuple(xs))


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
