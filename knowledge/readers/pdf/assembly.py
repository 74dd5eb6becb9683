"""Written lines to headings, paragraphs, lists and tables."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile

from knowledge.readers.base import MAX_HEADER_ROWS, Outline, PlacedLine, table_text
from knowledge.readers.pdf.layout import Page
from knowledge.readers.pdf.lines import Line
from knowledge.readers.pdf.tables import Table

_HEADING_RATIO = 1.12
_HEADING_LENGTH = 140
_BULLET = re.compile(r"(?:[-*•‣▪◦●–—∗⋄\uf0b7]|\d{1,2}[.)])\s+(?=\S)")
_NUMBERED = re.compile(r"(?:[IVX]+|[A-Z]|\d+(?:\.\d+)*)[.)]?\s+(?=\w)")
_FINISHED = re.compile(r"[.?!:;…][»”’)\]]*$")


def main_size(lines: Iterable[Line]) -> float:
    """The size in which most letters are set."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 11.0


class Assembler:
    """Gives each title its level and joins lines into what they are parts of."""

    def __init__(self, outline: Outline, pages: Sequence[Page]) -> None:
        self._outline = outline
        self._pages = {page.number: page for page in pages}
        self._items = [item for page in pages for item in page.items]
        lines = [item for item in self._items if isinstance(item, Line)]
        self._body = main_size(lines)
        self._read_sizes(lines)
        self._read_measures(lines)
        self._words = {word.casefold() for line in lines for word in re.findall(r"\w+-\w+", line.text)}
        self._list: list[str] = []
        self._list_page = 0

    def _read_sizes(self, lines: Sequence[Line]) -> None:
        larger = {line.size for line in lines if self._is_larger(line)}
        self._levels = {size: min(rank, 5) for rank, size in enumerate(sorted(larger)[::-1], 1)}
        self._single_top = bool(larger) and sum(line.size == max(larger) for line in lines) <= 2
        bold = sum(len(line.text) for line in lines if line.bold)
        self._mostly_regular = bold < 0.3 * sum(len(line.text) for line in lines)

    def _read_measures(self, lines: Sequence[Line]) -> None:
        body = [line for line in lines if line.size == self._body]
        widths = sorted(line.x1 - line.x0 for line in body)
        self._measure = widths[int(0.9 * (len(widths) - 1))] if widths else 0.0
        gaps = sorted(
            round(line.y0 - above.y0, 1)
            for above, line in zip(body, body[1:], strict=False)
            if above.page == line.page and line.y0 > above.y0
        )
        self._gap = gaps[len(gaps) // 4] if gaps else 0.0

    def run(self) -> None:
        index = 0
        while index < len(self._items):
            index += self._take(index)
        self._flush_list()

    def _take(self, index: int) -> int:
        """Write what begins at an item; returns how many items that was."""
        item = self._items[index]
        if isinstance(item, Table):
            return self._table(index)
        if taken := self._title(index):
            return taken
        count = 1
        while self._continues(index + count):
            count += 1
        self._paragraph(self._lines(index, count))
        return count

    def _lines(self, start: int, count: int) -> list[Line]:
        return [item for item in self._items[start : start + count] if isinstance(item, Line)]

    def _line(self, index: int) -> Line | None:
        item = self._items[index] if 0 <= index < len(self._items) else None
        return item if isinstance(item, Line) else None

    # Titles

    def _is_larger(self, line: Line) -> bool:
        return line.size >= self._body * _HEADING_RATIO and len(line.text) <= _HEADING_LENGTH

    def _title(self, index: int) -> int:
        """Open the section that is named here; returns how many lines its title fills, 0 for no title."""
        line = self._items[index]
        assert isinstance(line, Line)  # noqa: S101  # for the type checker
        level, count = self._heading_level(line), 1
        if not level:
            return 0
        while self._continues_title(index + count, line):
            count += 1
        self._flush_list()
        lines = self._lines(index, count)
        text = self._joined(lines)
        self._outline.heading(level, text)
        self._place(lines, is_title=True)
        return count

    def _heading_level(self, line: Line) -> int:
        if line.turned or not any(character.isalpha() for character in line.text):
            return 0
        if self._is_larger(line):
            # The largest size names the document when it is used once, else its chapters.
            return self._levels[line.size] + (0 if self._single_top else 1)
        is_short = len(line.text) <= 80 and not line.text.endswith((".", ",", ";", ":"))
        if line.bold and is_short and line.text[0].isupper() and not line.text.endswith("?"):
            small = line.size < self._body and not _NUMBERED.match(line.text)
            if small or not self._mostly_regular:
                return 0
            return min(len(self._levels) + 2, 6)
        return 0

    def _continues_title(self, index: int, first: Line) -> bool:
        above, line = self._line(index - 1), self._line(index)
        if above is None or line is None:
            return False
        return (
            (line.size, line.bold, line.page) == (first.size, first.bold, first.page)
            and 0 < line.y0 - above.y0 <= 1.6 * line.size
            and len(above.text) >= 25
            and not above.text.endswith(("?", ".", "!"))
        )

    # Tables

    def _table(self, index: int) -> int:
        """Write a table with what goes on of it at the top of the next pages, under one header."""
        first = self._items[index]
        assert isinstance(first, Table)  # noqa: S101  # for the type checker
        rows, sources, count = list(first.rows), list(first.lines), 1
        last = first
        while index + count < len(self._items):
            following = self._items[index + count]
            if not isinstance(following, Table) or not _goes_on(last, following):
                break
            same = (ours == theirs for ours, theirs in zip(first.rows[:MAX_HEADER_ROWS], following.rows, strict=False))
            repeated = len(list(takewhile(bool, same)))
            rows += following.rows[repeated:]
            sources += following.lines[repeated:]
            last = following
            count += 1
        self._flush_list()
        self._outline.add(table_text(rows), kind="table", page=first.page)
        for source in sources:
            self._place(source)
        return count

    # Text

    def _continues(self, index: int) -> bool:
        """Whether a line goes on with the paragraph of the line above it."""
        above, line = self._line(index - 1), self._line(index)
        if above is None or line is None or above.turned or line.turned or above.filled or line.filled:
            return False
        if abs(above.size - line.size) > 0.6 or _BULLET.match(line.text):
            return False
        if self._heading_level(line):
            return False
        if line.bold != above.bold and (above.text.endswith("?") or line.bold):
            return False
        unfinished = not _FINISHED.search(above.text)
        is_full = above.x1 - above.x0 >= 0.75 * self._measure
        if above.page != line.page or line.y0 < above.y0:
            return unfinished and (line.text[0].islower() or is_full)
        if self._gap and line.y0 - above.y0 > 1.35 * max(self._gap, line.size):
            return False
        indented = line.x0 - above.x0 > 0.8 * line.size and not _BULLET.match(above.text)
        return unfinished or (is_full and not indented)

    def _paragraph(self, lines: list[Line]) -> None:
        text = self._joined(lines)
        self._place(lines)
        if match := _BULLET.match(text):
            mark = match[0].strip()
            self._list.append(f"{mark if mark[0].isdigit() else '-'} {text[match.end() :]}")
            self._list_page = self._list_page or lines[0].page
            return
        self._flush_list()
        is_bold = all(line.bold for line in lines) and self._mostly_regular
        self._outline.add(f"**{text}**" if is_bold else text, page=lines[0].page)

    def _flush_list(self) -> None:
        self._outline.add("\n".join(self._list), kind="list", page=self._list_page)
        self._list, self._list_page = [], 0

    def _joined(self, lines: Sequence[Line]) -> str:
        text = lines[0].text
        for line in lines[1:]:
            cut = re.search(r"([^\W\d_]+)-$", text)
            if cut and line.text[0].islower():
                following = re.match(r"\w*", line.text)
                compound = f"{cut[1]}-{following[0] if following else ''}".casefold()
                text = (text if compound in self._words else text[:-1]) + line.text
            else:
                text += ("" if text.endswith("-") else " ") + line.text
        return text

    def _place(self, lines: Iterable[Line], *, is_title: bool = False) -> None:
        for line in lines:
            page = self._pages[line.page]
            x0, x1 = (_share(at, page.width) for at in (line.x0, line.x1))
            y0, y1 = (_share(at, page.height) for at in (line.y0, line.y1))
            self._outline.lines.append(PlacedLine(line.text, line.page, (x0, y0, x1, y1), is_title))


def _share(at: float, whole: float) -> float:
    """Where a coordinate stands on its page, from 0 to 1: bounded where it is outside, 0 on a page without a size."""
    return min(1.0, max(0.0, at / whole)) if whole else 0.0


def _goes_on(last: Table, following: Table) -> bool:
    return (
        following.page == last.page + 1
        and len(following.rows[0]) == len(last.rows[0])
        and len(following.columns) == len(last.columns)
        and all(abs(a - b) < 4 for a, b in zip(last.columns, following.columns, strict=True))
    )
