"""CSV and Excel files (XLSX): a table of questions and answers gives one block a row, any other table stays a table.

A question row that lacks its question or its answer is left out, with a notice that names its line.
"""

import csv
import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from itertools import islice
from typing import Any

import openpyxl
from django.utils.translation import gettext as _
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.utils import coordinate_to_tuple, get_column_letter
from openpyxl.utils.datetime import to_excel
from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

from knowledge.models import SourceType
from knowledge.question_tables import TITLE_ROWS, question_columns, question_rows, table_rows
from knowledge.readers.base import (
    Outline,
    ParsedDocument,
    Run,
    check_length,
    clean_text,
    joined,
    one_line,
    some_numbers,
    table_text,
    unreadable,
)
from knowledge.readers.html import html_fragment_text
from knowledge.readers.number_formats import shown
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, paragraphs, parsed_xml
from knowledge.readers.text import decode_text

_HTML = re.compile(
    r"</?(?:p|div|br|ul|ol|li|a|strong|em|b|i|u|h[1-6]|table|tr|td|span|sup)\b[^>]*>"
    r"|&(?:[a-zA-Z]{2,8}|#\d{2,5});",
    re.IGNORECASE,
)


def parse_csv(data: bytes, *, filename: str) -> ParsedDocument:
    text = decode_text(data, filename=filename)
    outline = Outline()
    if (found := question_rows(text)) is None:
        # Prices, opening hours: a table like any other.
        outline.add(table_text([[_cell(cell) for cell in row] for row in table_rows(text)]), kind="table")
        if outline.blocks:
            return outline.finish(filename=filename, source_type=SourceType.CSV)
        raise unreadable(
            f"{filename}: no table",
            _(
                "Ce fichier CSV ne contient aucun tableau lisible : une ligne de titres, puis des lignes d’autant de cellules."
            ),
        )
    _delimiter, columns, rows = found
    try:
        for line, row in islice(rows, 1, None):
            _add_question_row(outline, line, row, columns)
    except csv.Error as error:
        raise unreadable(
            f"{filename}: {error}", _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
        ) from error
    if not outline.blocks:
        raise unreadable(f"{filename}: no row", _("Ce fichier CSV ne contient aucune question avec sa réponse."))
    return outline.finish(filename=filename, source_type=SourceType.CSV)


def _add_question_row(
    outline: Outline, line: int, row: Sequence[str], columns: Mapping[str, int], *, sheet: str = ""
) -> None:
    values = {name: _cell(row[index]) if index < len(row) else "" for name, index in columns.items()}
    if not values["question"]:
        outline.notices.append(sheet + _("ligne %(line)d : pas de question, ignorée") % {"line": line})
    elif not values["answer"]:
        outline.notices.append(sheet + _("ligne %(line)d : pas de réponse, ignorée") % {"line": line})
    else:
        outline.category = one_line(values.get("category", ""))
        outline.add(values["answer"], kind="qa", question=values["question"])


def _cell(value: str) -> str:
    text = html_fragment_text(value) if _HTML.search(value) else value
    return clean_text(text).strip()


#: Cells of a spreadsheet, over all its sheets: minutes of reading.
MAX_WORKBOOK_CELLS = 2_000_000

#: Of columns that are not read, so many are named, each by so many characters.
_MOST_NAMED, _NAME_LENGTH = 20, 50
#: Names that programs give to sheets say nothing.
_DEFAULT_NAME = re.compile(r"(?:feuil(?:le)?|sheet|tabelle|hoja)\s?\d*", re.IGNORECASE)


@dataclass(slots=True)
class Row:
    line: int
    cells: dict[int, str]
    #: Whether the visible row above it holds something as well.
    follows: bool


@dataclass(slots=True)
class Budget:
    """What the whole workbook may hold; taken from as cells are read."""

    filename: str
    cells: int = 0
    characters: int = 0

    def take(self, cells: int, characters: int) -> None:
        self.cells += cells
        self.characters += characters
        if self.cells > MAX_WORKBOOK_CELLS:
            raise unreadable(
                f"{self.filename}: over {MAX_WORKBOOK_CELLS} cells",
                _("Ce classeur a trop de cellules : %(limit)d au plus.") % {"limit": MAX_WORKBOOK_CELLS},
            )
        check_length(self.characters, filename=self.filename)


def parse_xlsx(data: bytes, *, filename: str) -> ParsedDocument:
    outline, budget = Outline(), Budget(filename)
    try:
        file = io.BytesIO(as_plain(data))
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False, rich_text=True)
        title = workbook.properties.title or ""
        around: list[str] = []
        for sheet in workbook.worksheets:
            if sheet.sheet_state != "visible":
                outline.notices.append(_("feuille « %(name)s » : masquée, ignorée") % {"name": one_line(sheet.title)})
                continue
            areas: list[Any] = []
            links: dict[str, str] = {}
            rows = list(_rows(sheet, budget, areas, links, outline, around))
            _link(rows, links)
            _fill_down(rows, areas, budget)
            read_sheet(outline, one_line(sheet.title), rows, budget)
            _read_beside(outline, sheet)
        outline.add_around(around)
    except MALFORMED_ARCHIVE as error:
        raise damaged(filename, error) from error
    return outline.finish(filename=filename, source_type=SourceType.XLSX, title=title)


class _Parser(WorkSheetParser):  # type: ignore[misc]
    """openpyxl's reader of a sheet, with numbers of days left to their formats and formulas without a value named."""

    def __init__(self, source: Any, sheet: Any) -> None:
        super().__init__(source, sheet._shared_strings, data_only=True, epoch=sheet.parent.epoch, rich_text=True)
        self.unvalued: list[str] = []
        #: Where cells lead, by their coordinates.
        self.links: dict[str, str] = {}

    def parse_cell(self, element: Any) -> Any:
        cell = super().parse_cell(element)
        if led := re.match(r'HYPERLINK\("([^"]+)"', element.findtext(FORMULA_TAG) or ""):
            self.links[f"{get_column_letter(cell['column'])}{cell['row']}"] = led[1]
        # An empty text is a value.
        if cell["value"] is None and cell["data_type"] == "n" and element.find(FORMULA_TAG) is not None:
            self.unvalued.append(f"{get_column_letter(cell['column'])}{cell['row']}")
        return cell


def _rows(
    sheet: Any, budget: Budget, areas: list[Any], links: dict[str, str], outline: Outline, around: list[str]
) -> Iterator[Row]:
    """The rows that hold something; what stands after them is added: areas of cells merged downwards, links, and what is
    printed around pages, without the codes of numbers, dates and names."""
    with sheet._get_source() as source:
        parser = _Parser(source, sheet)
        hidden: set[int] = set()
        hidden_rows: list[int] = []
        last = 0
        for line, raw in parser.parse():
            columns = [
                c
                for c in parser.column_dimensions.values()
                if c.get("hidden") in ("1", "true") or c.get("width") == "0"
            ]
            shut = [(int(column["min"]), int(column["max"])) for column in columns]
            cells: dict[int, str] = {}
            for cell in raw:
                if text := _shown(ReadOnlyCell(sheet, **cell), outline):
                    if any(first <= cell["column"] <= last for first, last in shut):
                        hidden.add(cell["column"])
                    else:
                        cells[cell["column"]] = text
            budget.take(len(raw), sum(map(len, cells.values())))
            if parser.row_dimensions.get(str(line), {}).get("hidden") in ("1", "true"):
                hidden_rows += [line] if cells else []
                last += line == last + 1
            elif cells:
                yield Row(line, cells, follows=line == last + 1)
                last = line
        merged = parser.merged_cells.mergeCell if parser.merged_cells else ()
        areas.extend(area for area in merged if area.max_row > area.min_row)
        links.update(parser.links)
        if pages := getattr(parser, "HeaderFooter", None):
            printed = {"o": True, "e": pages.differentOddEven, "f": pages.differentFirst}
            parts = [part for name in pages.__elements__ if printed[name[0]] and (part := getattr(pages, name))]
            sides = [side.text for part in parts for side in (part.left, part.center, part.right) if side.text]
            around += [clean_text(re.sub(r"&(?:(&)|\[\w+\]|[A-Z])", r"\1", side)).strip() for side in sides]
        if found := [link for link in parser.hyperlinks.hyperlink if link.id]:
            targets = {relation.Id: relation.Target for relation in _related(sheet)}
            links.update((link.ref.split(":")[0], targets.get(link.id, "")) for link in found)
    name_unread(outline, sheet.title, sorted(hidden), hidden_rows, parser.unvalued)


def _related(sheet: Any) -> Iterator[Any]:
    archive, path = sheet.parent._archive, get_rels_path(sheet._worksheet_path)
    yield from get_dependents(archive, path) if path in archive.namelist() else ()


def _read_beside(outline: Outline, sheet: Any) -> None:
    """The text boxes that lie over a sheet, after its cells; comments are named."""
    for relation in _related(sheet):
        kind = relation.Type.rpartition("/")[2]
        tree = parsed_xml(sheet.parent._archive.read(relation.Target)) if kind in ("drawing", "comments") else None
        if kind == "drawing":
            outline.add("\n\n".join(paragraphs(tree)))
        elif tree is not None:
            places = [comment.get("ref", "") for comment in tree.iter("{*}comment")]
            outline.name_comments(places, _("feuille « %(name)s » : ") % {"name": one_line(sheet.title)})


def name_unread(
    outline: Outline, sheet: str, columns: Sequence[int], rows: Sequence[int], unvalued: Sequence[str]
) -> None:
    """Say what is not read of a sheet: hidden columns and rows that hold something, formulas without a value."""
    for said, found in (
        (_("feuille « %(name)s » : colonnes masquées, ignorées : %(found)s"), [*map(get_column_letter, columns)]),
        (_("feuille « %(name)s » : lignes masquées, ignorées : %(found)s"), rows),
        (_("feuille « %(name)s » : formules sans valeur enregistrée, ignorées : %(found)s"), unvalued),
    ):
        if found:
            outline.notices.append(said % {"name": one_line(sheet), "found": some_numbers(found)})


def _link(rows: Sequence[Row], links: dict[str, str]) -> None:
    """Give each cell the address that it leads to."""
    by_line = {row.line: row.cells for row in rows} if links else {}
    for place, address in links.items():
        line, column = coordinate_to_tuple(place)
        if text := by_line.get(line, {}).get(column):
            by_line[line][column] = joined([Run(text, link=address)], [])


def _fill_down(rows: Sequence[Row], areas: Sequence[Any], budget: Budget) -> None:
    """What a cell merged downwards says is given in each row it covers."""
    lines = [row.line for row in rows]
    for area in areas:
        start, end = bisect_left(lines, area.min_row), bisect_right(lines, area.max_row)
        if lines[start : start + 1] != [area.min_row]:
            continue
        text = rows[start].cells.get(area.min_col, "")
        budget.take(end - start - 1, len(text) * (end - start - 1))
        for row in rows[start + 1 : end] if text else ():
            row.cells.setdefault(area.min_col, text)


def _shown(cell: ReadOnlyCell, outline: Outline) -> str:
    """A cell as people see it; what is struck is left out and named."""
    text = clean_text(_text(cell, outline).replace("_x000D_", "")).strip()
    if text and cell.font.strike:
        outline.struck.append(f"{text} ({cell.parent.title}, {cell.coordinate})")
        return ""
    return text


def _text(cell: ReadOnlyCell, outline: Outline) -> str:
    shape = cell.number_format or "General"
    match cell.value:
        case CellRichText() as pieces:
            return joined(map(_run, pieces), outline.struck)
        case bool() as value:
            return _("VRAI") if value else _("FAUX")
        case date() | time() | timedelta() as value:
            return shown(to_excel(value, cell.parent.parent.epoch), shape, cell.parent.parent.epoch)
        case int() | float() | str() as value if cell.data_type != "e":
            return shown(value, shape, cell.parent.parent.epoch)
    return ""


def _run(piece: str | TextBlock) -> Run:
    if isinstance(piece, str):
        return Run(piece)
    return Run(piece.text, {"superscript": 1, "subscript": -1}.get(piece.font.vertAlign, 0), bool(piece.font.strike))


def read_sheet(outline: Outline, name: str, rows: Sequence[Row], budget: Budget) -> None:
    if not rows:
        return
    outline.leave_sections()
    outline.heading(2, "" if _DEFAULT_NAME.fullmatch(name) else name)
    found = (question_columns(_filled(row, max(row.cells))) for row in rows[: TITLE_ROWS + 1])
    at, columns = next(((at, columns) for at, columns in enumerate(found) if columns), (0, {}))
    if columns:
        outline.add("\n\n".join(text for row in rows[:at] for text in row.cells.values()))
        rows = rows[at:]
        width = max(columns.values()) + 1
        for row in rows[1:]:
            _add_question_row(outline, row.line, _filled(row, width), columns, sheet=f"{name}, ")
        outline.category = ""
        if unread := ", ".join(_unread_columns(rows, columns)):
            said = _("feuille « %(name)s » : colonnes ignorées : %(columns)s")
            outline.notices.append(said % {"name": name, "columns": unread})
        return
    for region in _regions(rows):
        _read_region(outline, region, budget)


def _unread_columns(rows: Sequence[Row], columns: dict[str, int]) -> list[str]:
    """The names of columns beside question, answer and category that hold words, or the first of these."""
    known = {index + 1 for index in columns.values()}
    found: dict[int, str] = {}
    for row in rows[1:]:
        for column in row.cells.keys() - known:
            if any(map(str.isalpha, row.cells[column])):
                found.setdefault(column, rows[0].cells.get(column, row.cells[column]))
    return [one_line(found[column])[:_NAME_LENGTH] for column in sorted(found)][:_MOST_NAMED]


def _filled(row: Row, width: int) -> list[str]:
    return [row.cells.get(column, "") for column in range(1, width + 1)]


def _regions(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows that touch each other: an empty row parts two tables."""
    region: list[Row] = []
    for row in rows:
        if region and not row.follows:
            yield region
            region = []
        region.append(row)
    yield region


def _read_region(outline: Outline, region: Sequence[Row], budget: Budget) -> None:
    """What stands alone in its row above a table announces it; the first full row is the table's header."""
    start = 0
    while start < len(region) and len(region[start].cells) == 1:
        start += 1
    outline.add("\n\n".join(next(iter(row.cells.values())) for row in region[:start]))
    rows = region[start:]
    used = sorted({column for row in rows for column in row.cells})
    # Cells far apart from each other make a table of nearly nothing but empty ones.
    budget.take(len(used) * len(rows), 0)
    table = [[row.cells.get(column, "") for column in used] for row in rows]
    outline.add(table_text(table), kind="table")
