"""OpenDocument files (ODT, ODS): headings, lists and their numbers, tables, notes after what they are noted at.

The archive has been checked (`knowledge.readers.office`). A cell says what its sheet shows, a picture what its author says of it. Comments,
hidden text and tables of contents are not read; struck and deleted text, hidden sheets, rows, columns and sections are noticed.
"""

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _
from lxml import etree

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, Run, clean_text, counted, joined, one_line, table_text
from knowledge.readers.number_formats import shown
from knowledge.readers.office import MALFORMED_ARCHIVE, damaged, picture_text, within
from knowledge.readers.spreadsheet import Budget, Row, name_unread, read_sheet

_PREFIXES = {
    **{f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": name for name in ("office", "style", "text", "table")},
    "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0": "draw",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0": "svg",
    "urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0": "field",
    "http://www.w3.org/1999/xlink": "xlink",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "http://purl.org/dc/elements/1.1/": "dc",
}
_SPACES = {prefix: space for space, prefix in _PREFIXES.items()}
#: What is no text of the document, or is read apart.
_UNREAD = frozenset(
    "office:annotation office:forms text:tracked-changes text:table-of-content text:illustration-index "
    "text:table-index text:object-index text:user-index text:alphabetical-index text:note-citation text:ruby-text "
    "text:page-number text:page-count text:sheet-name text:placeholder draw:object draw:image".split()
)
_ROWS, _COLUMNS = (
    [f"{{{_SPACES['table']}}}{name}" for name in (f"table-header-{part}s", f"table-{part}s", f"table-{part}-group")]
    for part in ("row", "column")
)
_CELLS = ("table:table-cell", "table:covered-table-cell")
_HIDDEN = ("collapse", "filter")
_SEEN = (("", ""), ("", "false"), ("value", ""), ("formula", ""))
#: Programs show no more; a file may claim any number.
_MOST_COLUMNS = 2**14
#: Styles that are based on one another, as far as they are followed.
_LONGEST_STYLES = 20


@lru_cache(maxsize=500)
def _full(name: str) -> str:
    prefix, _colon, local = name.partition(":")
    return f"{{{_SPACES[prefix]}}}{local}"


@lru_cache(maxsize=2_000)
def _short(tag: str) -> str:
    space, _brace, local = tag[1:].partition("}")
    return f"{_PREFIXES.get(space, '')}:{local}"


def _get(element: Any, name: str) -> str:
    return str(element.get(_full(name), ""))


def _count(element: Any, name: str, default: int = 1) -> int:
    value = _get(element, name)
    return int(value) if value.isdecimal() and len(value) < 10 else default


def parse_opendocument(data: bytes, *, filename: str) -> ParsedDocument:
    outline = Outline()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
            names = [name for name in ("content.xml", "styles.xml", "meta.xml") if name in archive.namelist()]
            trees = {name: etree.fromstring(archive.read(name), parser) for name in names}
        [body] = trees["content.xml"].iter(_full("office:body"))
        reader = _Reader(outline, list(trees.values()))
        is_sheet = body[0].tag == _full("office:spreadsheet")
        if is_sheet:
            reader.sheets(body[0], Budget(filename))
        else:
            reader.document(body[0])
        notes = len(list(body.iter(_full("office:annotation"))))
        outline.name_comments([notes][:notes])
        title = trees["meta.xml"].findtext(f".//{_full('dc:title')}") if "meta.xml" in trees else ""
    except MALFORMED_ARCHIVE as error:
        raise damaged(filename, error) from error
    return outline.finish(
        filename=filename, source_type=SourceType.ODS if is_sheet else SourceType.ODT, title=title or ""
    )


class _Styles:
    def __init__(self, trees: list[Any]) -> None:
        self._found: dict[tuple[str, str], Any] = {}
        self._lists: dict[str, dict[int, Any]] = {}
        for tree in trees:
            for style in tree.iter(_full("style:style")):
                self._found.setdefault((_get(style, "style:family"), _get(style, "style:name")), style)
            for style in tree.iter(_full("text:list-style"), _full("text:outline-style")):
                name = _get(style, "style:name") if style.tag == _full("text:list-style") else ""
                self._lists[name] = {_count(level, "text:level"): level for level in style}

    def value(self, family: str, name: str, wanted: str) -> str:
        """What a style, or one that it is based on, says of itself or in its properties."""
        for _step in range(_LONGEST_STYLES):
            if (style := self._found.get((family, name))) is None:
                return ""
            for element in (style, *style):
                if value := _get(element, wanted):
                    return value
            name = _get(style, "style:parent-style-name")
        return ""

    def mark(self, name: str, counts: dict[int, int], depth: int) -> str:
        """How a list of this style numbers what stands at a level (from 1), `-` for a bullet; `counts` go on."""
        levels = self._lists.get(name, {})
        level = levels.get(depth)
        if level is None or not _short(level.tag).endswith(("-number", "outline-level-style")):
            return "-"
        start = _count(level, "text:start-value")
        counts[depth] = counts.get(depth, start - 1) + 1
        for deeper in [each for each in counts if each > depth]:
            del counts[deeper]

        def said(at: int) -> str:
            of = levels.get(at)
            if of is None or not (form := _get(of, "style:num-format")):
                return ""
            return counted(counts.setdefault(at, _count(of, "text:start-value")), form)

        if not said(depth):
            return ""
        first = depth - _count(level, "text:display-levels") + 1
        numbers = ".".join(filter(None, map(said, range(max(first, 1), depth + 1))))
        return f"{_get(level, 'style:num-prefix')}{numbers}{_get(level, 'style:num-suffix')}".strip()


class _Reader:
    def __init__(self, outline: Outline, trees: list[Any]) -> None:
        self._outline = outline
        self._trees = trees
        self._styles = _Styles(trees)
        self._headings: dict[int, int] = {}
        #: The numbers of lists, by their identifier and of the last one of a style.
        self._counts: dict[str, dict[int, int]] = {}
        self._last: dict[str, dict[int, int]] = defaultdict(dict)
        #: What stands in a paragraph and is read after it: notes and boxes.
        self._beside: list[Any] = []

    def document(self, body: Any) -> None:
        for deleted in body.iter(_full("text:deletion")):
            self._outline.struck.append(" ".join(deleted.itertext()))
        self.blocks(body)
        self._read_beside()
        self._outline.add_around(self._around())

    def _around(self, names: Container[str] | None = None) -> Iterator[str]:
        """The headers and footers that are shown, of the pages of these names or of all."""
        for page in (page for tree in self._trees for page in tree.iter(_full("style:master-page"))):
            for around in page if names is None or _get(page, "style:name") in names else ():
                is_shown = _get(around, "style:display") != "false"
                if is_shown and _short(around.tag).startswith(("style:header", "style:footer")):
                    yield from map(self.text, around.iter(_full("text:p")))

    def blocks(self, parent: Any) -> None:
        for element in parent:
            self.block(element)

    def block(self, element: Any, mark: str = "") -> None:
        name = _short(element.tag)
        match name:
            case "text:p" | "text:h":
                self._outline.end_list()
                self._paragraph(element, mark)
                self._read_beside()
            case "text:list":
                self._list(element, "", 1)
                self._outline.end_list()
                self._read_beside()
            case "table:table":
                rows, headers = self._table(element)
                self._outline.add(table_text(rows, headers=headers), kind="table")
                self._read_beside()
            case "svg:title" | "svg:desc":
                self._outline.add(picture_text(element.text or ""))
            case "text:section" if _get(element, "text:display") == "none":
                said = _("section « %(name)s » : masquée, ignorée") % {"name": _get(element, "text:name")}
                self._outline.notices.append(said)
            case _ if name not in _UNREAD:
                self.blocks(element)

    def _read_beside(self) -> None:
        beside, self._beside = self._beside, []
        for element in beside:
            self.blocks(element)

    def _paragraph(self, element: Any, mark: str) -> None:
        text, style = self.text(element), _get(element, "text:style-name")
        level = int(self._styles.value("paragraph", style, "style:default-outline-level") or 0)
        if element.tag == _full("text:h"):
            level = _count(element, "text:outline-level")
            if not mark and _get(element, "text:is-list-header") != "true":
                mark = self._styles.mark("", self._headings, level)
        is_title = "Title" in (style, self._styles.value("paragraph", style, "style:parent-style-name"))
        if text and is_title and not self._outline.title:
            self._outline.heading(1, text)
        elif text and level:
            is_numbered = mark not in ("", "-")
            self._outline.heading(level, f"{mark} {text}" if is_numbered else text, is_part=is_numbered)
        else:
            self._outline.add(text)

    def _list(self, element: Any, style: str, depth: int) -> None:
        style = _get(element, "text:style-name") or style
        if depth == 1:
            goes_on = _get(element, "text:continue-numbering") == "true"
            before = self._last[style] if goes_on else {}
            self._last[style] = self._counts.get(_get(element, "text:continue-list"), before)
            if key := _get(element, "xml:id"):
                self._counts[key] = self._last[style]
        for item in element:
            mark = None if item.tag == _full("text:list-item") else "-"
            for child in item:
                if child.tag == _full("text:list"):
                    self._list(child, style, depth + 1)
                    continue
                is_first = mark is None
                if is_first:
                    counts = self._last[style]
                    if start := _count(item, "text:start-value", 0):
                        counts[depth] = start - 1
                    mark = self._styles.mark(_get(item, "text:style-override") or style, counts, depth)
                if child.tag == _full("text:p") and (text := one_line(self.text(child))):
                    self._outline.item(text, depth=depth - 1, mark=(is_first and mark) or "-")
                elif child.tag != _full("text:p"):
                    self.block(child, mark if is_first and mark else "")

    def text(self, element: Any) -> str:
        if any(_get(mark, "text:is-hidden") == "true" for mark in element.iter(_full("text:hidden-paragraph"))):
            return ""
        run = self._styled("paragraph", _get(element, "text:style-name"), Run(""))
        return clean_text(joined(self._runs(element, run), self._outline.struck)).strip() if run else ""

    def _runs(self, element: Any, run: Run) -> Iterator[Run]:
        """The text of an element as `run` looks."""
        yield run._replace(text=re.sub(r"\s+", " ", element.text or ""))
        for child in element:
            match name := _short(child.tag):
                case "text:s" | "text:tab":
                    yield run._replace(text=" ")
                case "field:fieldmark" if _get(child, "field:type").endswith("FORMCHECKBOX"):
                    is_ticked = any(_get(p, "field:value") == "true" for p in child)
                    yield run._replace(text="☒" if is_ticked else "☐")
                case "text:line-break":
                    yield run._replace(text="\n")
                case "text:a":
                    yield from self._runs(child, run._replace(link=_get(child, "xlink:href")))
                case "text:span":
                    styled = self._styled("text", _get(child, "text:style-name"), run)
                    yield from self._runs(child, styled) if styled else ()
                case "text:note":
                    self._beside.extend(child.iterchildren(_full("text:note-body")))
                case _ if name.startswith("draw:"):
                    self._beside.append(child)
                case _ if name not in _UNREAD and (_get(child, "text:display"), _get(child, "text:is-hidden")) in _SEEN:
                    yield from self._runs(child, run)
            yield run._replace(text=re.sub(r"\s+", " ", child.tail or ""))

    def _styled(self, family: str, style: str, run: Run) -> Run | None:
        """The run with what a style says of it; `None` where the style hides it."""
        if self._styles.value(family, style, "text:display") == "none":
            return None
        place = self._styles.value(family, style, "style:text-position").split(" ")[0]
        is_raised = place == "super" or (place[:1].isdigit() and place != "0%")
        height = 1 if is_raised else -1 if place.startswith(("sub", "-")) else run.height
        lines = (self._styles.value(family, style, f"style:text-line-through-{part}") for part in ("style", "type"))
        line = next(filter(None, lines), "")
        return run._replace(height=height, is_struck=line != "none" if line else run.is_struck)

    def _table(self, table: Any) -> tuple[list[list[str]], int]:
        """The rows of a table of a text, and how many of them name its columns."""
        rows, budget = [], Budget(self._outline.title)
        for row in self._rows(table, budget, {}, []):
            budget.take(max(row.cells), 0)
            rows.append([row.cells.get(column, "") for column in range(1, max(row.cells) + 1)])
        heads = [row for head in table.iterchildren(_full("table:table-header-rows")) for row in head]
        return rows, len(heads)

    def _rows(self, table: Any, budget: Budget, hidden: dict[int, bool], hidden_rows: list[int]) -> Iterator[Row]:
        """The rows that hold something, merged cells in all theirs; `hidden` is told which columns hold something."""
        line = last = 0
        below: dict[int, tuple[str, int]] = {}
        for row in within(table, _full("table:table-row"), _ROWS):
            cells: dict[int, str] = {}
            column = 1
            for cell in row:
                if _short(cell.tag) not in _CELLS:
                    continue
                count, said = _count(cell, "table:number-columns-repeated"), self._cell(cell)
                held, left = below.get(column, ("", 0))
                if left and cell.tag == _full("table:covered-table-cell"):
                    said, below[column] = said or held, (held, left - 1)
                elif (rows := _count(cell, "table:number-rows-spanned")) > 1:
                    below[column] = said, rows - 1
                budget.take(count if said else 1, count * len(said))
                for place in range(column, min(column + count, _MOST_COLUMNS)) if said else ():
                    if place in hidden:
                        hidden[place] = True
                    else:
                        cells[place] = said
                column += count
            is_hidden = _get(row, "table:visibility") in _HIDDEN
            count = _count(row, "table:number-rows-repeated")
            budget.take(count * len(cells), count * sum(map(len, cells.values())))
            hidden_rows += [line + 1] if is_hidden and cells else []
            for _time in range(count) if cells and not is_hidden else ():
                line += 1
                yield Row(line, dict(cells), follows=line == last + 1)
                last = line
            if is_hidden and line == last:
                last += count
            line += count if is_hidden or not cells else 0

    def _lines(self, holder: Any) -> list[str]:
        lines = (self.text(line) for line in holder.iter(_full("text:p")) if not _is_in_note(line, holder))
        return list(filter(None, lines))

    def _cell(self, cell: Any) -> str:
        text = "\n".join(self._lines(cell))
        value = _get(cell, "office:value")
        if not text and value:
            text = shown(float(value), "General")
        if led := re.match(r'of:=HYPERLINK\("([^"]+)"', _get(cell, "table:formula")):
            text = joined([Run(text, link=led[1])], [])
        run = self._styled("table-cell", _get(cell, "table:style-name"), Run(""))
        if text and run and run.is_struck:
            self._outline.struck.append(text)
            return ""
        return text

    def sheets(self, body: Any, budget: Budget) -> None:
        pages = set()
        for table in body.iterchildren(_full("table:table")):
            name = one_line(_get(table, "table:name"))
            if self._styles.value("table", _get(table, "table:style-name"), "table:display") == "false":
                self._outline.notices.append(_("feuille « %(name)s » : masquée, ignorée") % {"name": name})
                continue
            hidden: dict[int, bool] = {}
            at = 1
            for column in within(table, _full("table:table-column"), _COLUMNS):
                after = min(at + _count(column, "table:number-columns-repeated"), _MOST_COLUMNS)
                if _get(column, "table:visibility") in _HIDDEN:
                    hidden |= dict.fromkeys(range(at, after), False)
                at = after
            hidden_rows: list[int] = []
            rows = list(self._rows(table, budget, hidden, hidden_rows))
            self._beside.clear()
            name_unread(self._outline, name, [at for at, holds in hidden.items() if holds], hidden_rows, [])
            read_sheet(self._outline, name, rows, budget)
            pages.add(self._styles.value("table", _get(table, "table:style-name"), "style:master-page-name"))
        self._outline.add_around(self._around(pages))


def _is_in_note(line: Any, holder: Any) -> bool:
    """Whether a paragraph stands in a comment, or in another paragraph, whose boxes and notes are read after it."""
    around = next((a for a in line.iterancestors() if a is holder or _short(a.tag) in (*_UNREAD, "text:p")), holder)
    return around is not holder
