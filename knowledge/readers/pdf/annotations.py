"""What lies on a page beside its own text: links, strokes of a marker through words, fields of forms, free notes."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import pypdfium2.raw as pdfium

from knowledge.readers.base import clean_text, one_line
from knowledge.readers.pdf.lines import Line, Link, Marks, PageFrame

_MOST_ANNOTATIONS = 5_000
_MOST_CHARACTERS = 100_000
_CHECKS = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_VALUES = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
#: Of a text field's flags: what is typed is a password.
_PASSWORD = 1 << 13


def page_annotations(document: Any, page: Any, frame: PageFrame) -> Marks:
    found, box = Marks(), pdfium.FS_RECTF()
    form = document.formenv
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
        note = pdfium.FPDFPage_GetAnnot(page, index)
        if note and not pdfium.FPDFAnnot_GetFlags(note) & _HIDDEN and pdfium.FPDFAnnot_GetRect(note, box):
            place = frame.box(box.left, box.bottom, box.right, box.top)
            match pdfium.FPDFAnnot_GetSubtype(note):
                case pdfium.FPDF_ANNOT_LINK if address := _address(document, note):
                    found.links.append(Link(address, *place))
                case pdfium.FPDF_ANNOT_STRIKEOUT:
                    found.strokes += _strokes(note, frame)
                case pdfium.FPDF_ANNOT_FREETEXT:
                    found.texts.append((_string(pdfium.FPDFAnnot_GetStringValue, note, b"Contents"), place))
                case pdfium.FPDF_ANNOT_WIDGET if form:
                    found.texts.append((_value(form, note), place))
        pdfium.FPDFPage_CloseAnnot(note)
    found.texts = [(text, place) for text, place in found.texts if text]
    return found


def _value(form: Any, note: Any) -> str:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, note)
    if kind in _CHECKS:
        return "☒" if pdfium.FPDFAnnot_IsChecked(form, note) else "☐"
    is_password = pdfium.FPDFAnnot_GetFormFieldFlags(form, note) & _PASSWORD and kind == pdfium.FPDF_FORMFIELD_TEXTFIELD
    return _string(pdfium.FPDFAnnot_GetFormFieldValue, form, note) if kind in _VALUES and not is_password else ""


def _string(get: Any, *arguments: Any) -> str:
    """What PDFium answers in UTF-16, with a null at its end."""
    size = min(get(*arguments, None, 0), 2 * _MOST_CHARACTERS)
    buffer = ctypes.create_string_buffer(size + 2)
    get(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return one_line(clean_text(buffer.raw[:size].decode("utf-16-le", "ignore").rstrip("\0")))


def _address(document: Any, note: Any) -> str:
    action = pdfium.FPDFLink_GetAction(pdfium.FPDFAnnot_GetLink(note))
    size = pdfium.FPDFAction_GetURIPath(document, action, None, 0) if action else 0
    buffer = ctypes.create_string_buffer(size + 1)
    pdfium.FPDFAction_GetURIPath(document, action, buffer, size)
    return buffer.value.decode("utf-8", "ignore")


def _strokes(note: Any, frame: PageFrame) -> Iterator[tuple[float, float, float]]:
    points = pdfium.FS_QUADPOINTSF()
    for index in range(pdfium.FPDFAnnot_CountAttachmentPoints(note)):
        if pdfium.FPDFAnnot_GetAttachmentPoints(note, index, points):
            x0, y0, x1, y1 = frame.box(points.x1, points.y1, points.x4, points.y4)
            yield (y0 + y1) / 2, x0, x1


def put_in(lines: Sequence[Line], found: Marks, number: int, size: float) -> list[Line]:
    """The lines with what fields and notes show: behind what is left in the row, before what is right, or below."""
    placed = list(lines)
    for text, (x0, y0, x1, y1) in sorted(found.texts, key=lambda each: (each[1][1], each[1][0])):
        line = Line(text, x0, y0, x1, y1, size, number, filled=True)
        row = [at for at, each in enumerate(placed) if each.y0 <= line.middle <= each.y1 and not each.turned]
        left = [at for at in row if placed[at].x0 <= x0]
        above = [at for at, each in enumerate(placed) if each.middle < line.middle and not each.turned]
        if left:
            at = max(left, key=lambda at: placed[at].x0) + 1
        elif row:
            at = min(row, key=lambda at: placed[at].x0)
        else:
            at = max(above, key=lambda at: placed[at].middle) + 1 if above else 0
        placed.insert(at, line)
    return placed
