"""Presentations (PPTX): each slide's title as a heading, its text, lists, tables, charts, diagrams and speaker's notes
below.

The archive has been checked (`knowledge.readers.office`). Shapes come in the order people read them: row by row, then
from the left. Pictures (but for what their author says), footers, comments, dates and slide numbers are not read; a
hidden slide is noticed.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pptx
from django.utils.translation import gettext as _
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.exc import PythonPptxError

from knowledge.models import SourceType
from knowledge.readers.base import (
    MAX_DOCUMENT_PAGES,
    Outline,
    ParsedDocument,
    Run,
    check_length,
    clean_text,
    counted,
    joined,
    one_line,
    table_text,
    unreadable,
)
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, drawn, picture_text

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_AUTOMATIC = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}
#: Boxes that begin within this of each other (a quarter of an inch, in EMU) begin a column.
_COLUMN = 228_600
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)
_UNREAD = (PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.SLIDE_NUMBER)
#: Placeholders whose paragraphs have bullets unless they say otherwise.
_BULLETED = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY)


def parse_pptx(data: bytes, *, filename: str) -> ParsedDocument:
    outline = Outline()
    try:
        presentation = pptx.Presentation(io.BytesIO(as_plain(data)))
        title = presentation.core_properties.title or ""
        _read(presentation, outline, filename=filename)
    except (PythonPptxError, *MALFORMED_ARCHIVE) as error:
        raise damaged(filename, error) from error
    return outline.finish(filename=filename, source_type=SourceType.PPTX, title=title)


def _read(presentation: Any, outline: Outline, *, filename: str) -> None:
    count = len(presentation.slides)
    if count > MAX_DOCUMENT_PAGES:
        raise unreadable(
            f"{filename}: {count} slides",
            _("Ce diaporama a trop de diapositives : %(count)d, %(limit)d au plus.")
            % {"count": count, "limit": MAX_DOCUMENT_PAGES},
        )
    hidden: list[int] = []
    read = 0
    for number, slide in enumerate(presentation.slides, 1):
        if slide._element.get("show") in ("0", "false"):
            hidden.append(number)
            continue
        before = len(outline.blocks)
        _Slide(outline, slide, number).read(opens=not read)
        read += sum(len(block.text) for block in outline.blocks[before:]) + 1
        check_length(read, filename=filename)
    outline.name_hidden(hidden)


class _Slide:
    def __init__(self, outline: Outline, slide: Any, number: int) -> None:
        self._outline = outline
        self._slide = slide
        self._place = _("diapositive %(slide)d") % {"slide": number}
        outline.page = number

    def read(self, *, opens: bool) -> None:
        """`opens`: the first slide, whose title is the document's."""
        title = next((shape for shape in self._slide.shapes if _placeholder(shape) in _TITLES), None)
        self._outline.leave_sections()
        self._outline.heading(1 if opens else 2, " ".join(self._lines(title)) if title is not None else "")
        self._arranged(shape for shape in self._slide.shapes if title is None or shape._element is not title._element)
        if any(relation.reltype.endswith("/comments") for relation in self._slide.part.rels.values()):
            self._outline.name_comments([1], f"{self._place} : ")
        if self._slide.has_notes_slide:
            for shape in self._slide.notes_slide.shapes:
                if shape.has_text_frame and _placeholder(shape) not in _UNREAD:
                    self._outline.add("\n\n".join(self._lines(shape)))

    def _arranged(self, shapes: Iterable[Any]) -> None:
        """Shapes row by row. Rows whose boxes begin at the same places are a table, or columns of boxes with lines."""
        for columns, group in groupby(_in_rows(shapes), _columns):
            rows = list(group)
            if columns and len(rows) > 1:
                texts = [[self._lines(shape) for shape in row] for row in rows]
                if all(len(lines) == 1 for row in texts for lines in row):
                    self._outline.add(table_text([[lines[0] for lines in row] for row in texts]), kind="table")
                    continue
                rows = list(map(list, zip(*rows, strict=True)))
            for row in rows:
                for shape in row:
                    self._shape(shape)

    def _shape(self, shape: Any) -> None:
        kind = _placeholder(shape)
        is_hidden = any(named.get("hidden") in ("1", "true") for named in shape._element[0].iter("{*}cNvPr"))
        if is_hidden:
            self._outline.notices.append(_("%(place)s : zone masquée, ignorée") % {"place": self._place})
        if is_hidden or kind in _UNREAD:
            return
        if hasattr(shape, "shapes"):
            self._arranged(shape.shapes)
        elif getattr(shape, "has_table", False):
            self._outline.add(table_text(self._table(shape)), kind="table")
        elif shape.has_text_frame:
            self._text(shape, bulleted=kind in _BULLETED)
        else:
            self._outline.add(picture_text(next(shape._element[0].iter("{*}cNvPr")).get("descr", "")))
            for drawn_kind, text in drawn(shape._element, lambda key: shape.part.related_part(key).blob):
                self._outline.add(text, kind=drawn_kind)

    def _text(self, shape: Any, *, bulleted: bool) -> None:
        paragraphs = [(part, text) for part in shape.text_frame.paragraphs if (text := self._text_of(part, shape.part))]
        numbers: dict[int, tuple[str, int]] = {}
        for part, text in paragraphs:
            mark = _mark(part, numbers, bulleted=bulleted and len(paragraphs) > 1)
            if mark:
                self._outline.item(one_line(text), depth=part.level, mark=mark)
            else:
                self._outline.add(text)
        self._outline.end_list()

    def _lines(self, shape: Any, frame: Any = None) -> list[str]:
        texts = (self._text_of(part, shape.part) for part in (frame or shape.text_frame).paragraphs)
        return [text for text in texts if text]

    def _text_of(self, part: Any, holder: Any) -> str:
        struck: list[str] = []
        text = joined(_runs(part._p, holder), struck)
        self._outline.struck += [f"{one_line(said)} ({self._place})" for said in struck if said.strip()]
        return clean_text(text).strip()

    def _table(self, shape: Any) -> list[list[str]]:
        """The table as rows of text; what a cell merged downwards says is given in each row it covers."""
        rows: list[list[str]] = []
        for row in shape.table.rows:
            line = []
            for column, cell in enumerate(row.cells):
                goes_on = cell._tc.get("vMerge") in ("1", "true") and rows
                line.append(rows[-1][column] if goes_on else " ".join(self._lines(shape, cell.text_frame)))
            rows.append(line)
        return rows


def _in_rows(shapes: Iterable[Any]) -> list[list[Any]]:
    """Shapes whose upper edges differ by less than half a shape's height stand in a row."""
    rows: list[list[Any]] = []
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        first = rows[-1][0] if rows else None
        lower = min(shape.height or 0, first.height or 0) / 2 if first is not None else 0
        if first is not None and (shape.top or 0) - (first.top or 0) <= lower:
            rows[-1].append(shape)
        else:
            rows.append([shape])
    return [sorted(row, key=lambda shape: shape.left or 0) for row in rows]


def _columns(row: Sequence[Any]) -> tuple[int, ...]:
    """Where the boxes of a row begin, near enough; empty where it is no row of boxes with text."""
    if len(row) < 2 or any(not getattr(s, "has_text_frame", False) or not s.text_frame.text.strip() for s in row):
        return ()
    return tuple(round((shape.left or 0) / _COLUMN) for shape in row)


def _runs(paragraph: Any, holder: Any) -> Iterator[Run]:
    for child in paragraph:
        match str(child.tag).removeprefix(_A):
            case "br":
                yield Run("\n")
            case "r" | "fld":
                style = child.find(f"{_A}rPr")
                get = style.get if style is not None else {}.get
                baseline = get("baseline", "0")
                key = style.find(f"{_A}hlinkClick") if style is not None else None
                relation = holder.rels.get(key.get(f"{_R}id", "")) if key is not None else None
                yield Run(
                    (child.findtext(f"{_A}t") or "").replace("\v", "\n"),
                    0 if baseline in ("0", "0%") else -1 if baseline.startswith("-") else 1,
                    get("strike", "noStrike") != "noStrike",
                    relation.target_ref if relation is not None and relation.is_external else "",
                )
            case "m" | "AlternateContent":
                yield Run("".join(child.itertext(f"{_M}t")))


def _placeholder(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _mark(part: Any, numbers: dict[int, tuple[str, int]], *, bulleted: bool) -> str:
    """What stands before a paragraph: a bullet, or a number, counted in `numbers` by level; empty for none."""
    properties = part._p.find(f"{_A}pPr")
    marks = {str(child.tag).removeprefix(_A): child for child in (properties if properties is not None else ())}
    for deeper in [level for level in numbers if level > part.level]:
        del numbers[deeper]
    if (auto := marks.get("buAutoNum")) is None:
        numbers.pop(part.level, None)
        return "-" if "buChar" in marks or (bulleted and "buNone" not in marks) else ""
    kind = auto.get("type", "arabicPeriod")
    before, number = numbers.get(part.level, ("", 0))
    number = number + 1 if kind == before else int(auto.get("startAt", "1"))
    numbers[part.level] = kind, number
    form = next((form for name, form in _AUTOMATIC.items() if kind.startswith(name)), "1")
    text = counted(number, form)
    return f"({text})" if kind.endswith("Both") else f"{text})" if kind.endswith("R") else f"{text}."
