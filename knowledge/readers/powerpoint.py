"""Presentations (PPTX): each slide's title as a heading, its text, lists, tables, charts, diagrams and speaker's notes
below.

The archive has been checked (`knowledge.readers.office`). Shapes come in the order people read them: from the top,
then from the left. Pictures, footers, comments, dates and slide numbers are not read; a hidden slide is noticed.
"""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pptx
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pptx.enum.shapes import PP_PLACEHOLDER
from pptx.exc import PythonPptxError

from knowledge.models import SourceType
from knowledge.readers.base import (
    MAX_DOCUMENT_PAGES,
    Outline,
    ParsedDocument,
    check_length,
    clean_text,
    one_line,
    some_numbers,
    table_text,
    unreadable,
)
from knowledge.readers.office import MALFORMED_ARCHIVE, as_transitional, damaged, drawn

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TITLES = (PP_PLACEHOLDER.TITLE, PP_PLACEHOLDER.CENTER_TITLE, PP_PLACEHOLDER.VERTICAL_TITLE)
_UNREAD = (PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.SLIDE_NUMBER)
#: Placeholders whose paragraphs have bullets unless they say otherwise.
_BULLETED = (PP_PLACEHOLDER.BODY, PP_PLACEHOLDER.OBJECT, PP_PLACEHOLDER.VERTICAL_BODY)


def parse_pptx(data: bytes, *, filename: str) -> ParsedDocument:
    outline = Outline()
    try:
        presentation = pptx.Presentation(io.BytesIO(as_transitional(data)))
        title = presentation.core_properties.title or ""
        _read(presentation, outline, filename=filename)
    except (PythonPptxError, *MALFORMED_ARCHIVE) as error:
        raise damaged(filename, error) from error
    # What every new presentation of the commonest programs is called.
    title = "" if one_line(title).casefold() in ("powerpoint presentation", "présentation powerpoint") else title
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
    if hidden:
        outline.notices.append(
            ngettext(
                "diapositive %(slides)s : masquée, ignorée", "diapositives %(slides)s : masquées, ignorées", len(hidden)
            )
            % {"slides": some_numbers(hidden)}
        )


class _Slide:
    def __init__(self, outline: Outline, slide: Any, number: int) -> None:
        self._outline = outline
        self._slide = slide
        self._number = number
        self._items: list[str] = []

    def read(self, *, opens: bool) -> None:
        """`opens`: the first slide, whose title is the document's."""
        shapes = list(_in_order(self._slide.shapes))
        titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
        self._outline.leave_sections()
        heading = " ".join(_lines(titles[0].text_frame)) if titles else ""
        self._outline.heading(1 if opens else 2, heading)
        for shape in shapes:
            if shape not in titles[:1]:
                self._shape(shape)
        self._flush()
        if self._slide.has_notes_slide:
            frame = self._slide.notes_slide.notes_text_frame
            self._add("\n\n".join(_lines(frame)) if frame is not None else "")

    def _shape(self, shape: Any) -> None:
        kind = _placeholder(shape)
        if kind in _UNREAD:
            return
        if getattr(shape, "has_table", False):
            self._flush()
            self._add(_table(shape.table), kind="table")
        elif shape.has_text_frame:
            self._text(shape.text_frame, bulleted=kind in _BULLETED)
        else:
            for drawn_kind, text in drawn(shape._element, lambda key: shape.part.related_part(key).blob):
                self._add(text, kind=drawn_kind)
        self._flush()

    def _text(self, frame: Any, *, bulleted: bool) -> None:
        paragraphs = [(part, text) for part in frame.paragraphs if (text := _text_of(part))]
        for part, text in paragraphs:
            if _is_item(part, bulleted=bulleted and len(paragraphs) > 1):
                self._items.append(f"{'  ' * min(part.level, 5)}- {one_line(text)}")
            else:
                self._flush()
                self._add(text)

    def _add(self, text: str, *, kind: Any = "prose") -> None:
        self._outline.add(text, kind=kind, page=self._number)

    def _flush(self) -> None:
        self._add("\n".join(self._items), kind="list")
        self._items.clear()


def _in_order(shapes: Iterable[Any]) -> Iterator[Any]:
    """The shapes, groups opened, as they are read; those that stand nowhere keep their place at the top."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _in_order(shape.shapes)
        else:
            yield shape


def _placeholder(shape: Any) -> Any:
    return shape.placeholder_format.type if shape.is_placeholder else None


def _lines(frame: Any) -> list[str]:
    return [text for part in frame.paragraphs if (text := _text_of(part))]


def _text_of(part: Any) -> str:
    return clean_text(part.text.replace("\v", "\n")).strip()


def _is_item(part: Any, *, bulleted: bool) -> bool:
    properties = part._p.find(f"{_A}pPr")
    if properties is not None:
        if properties.find(f"{_A}buNone") is not None:
            return False
        if any(properties.find(f"{_A}{mark}") is not None for mark in ("buChar", "buAutoNum")):
            return True
    return bulleted


def _table(table: Any) -> str:
    """The table as rows of text; what a cell merged downwards says is given in each row it covers."""
    rows: list[list[str]] = []
    below: dict[int, tuple[str, int]] = {}
    for row in table.rows:
        line: list[str] = []
        for column, cell in enumerate(row.cells):
            text = clean_text(cell.text_frame.text.replace("\v", " ")).strip()
            held, left = below.pop(column, ("", 0))
            if cell.is_spanned and left:
                text = text or held
            elif cell.is_merge_origin:
                held, left = text, cell.span_height
            if left > 1:
                below[column] = (held, left - 1)
            line.append(text)
        rows.append(line)
    return table_text(rows)
