"""The characters of a page, as PDFium places them, to pieces of lines.

A piece (`Line`) is what stands on one line without a wide gap, so that the cells of a table and the columns of a page
stay apart. Ligatures are spelled out, a hyphen at the end of a line stays. Fields of forms and free notes are set in.
"""

import ctypes
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pypdfium2.raw as pdfium

from knowledge.readers.base import Run, clean_text, joined, one_line

#: A wider gap, in sizes of the letters, parts what stands on one line.
WIDE_GAP = 1.0
#: A narrower gap is no space, where the file has none either.
_WORD_GAP = 0.28
#: How much of the lower of two characters stands beside the other where they are on one line.
_SAME_LINE = 0.35
#: PDFium answers whole numbers when it turns a point: hundredths of a point are asked for.
_FINE = 100
#: PDFium's weight is of no use: it makes 744 of one TeX font's stems, and 345 of another copy of it.
_BOLD = re.compile(r"bold|black|heavy|semib|-B$|(?<=[a-z])TB$|cmbx|sfbx|ecbx", re.I)
#: Of a font's flags: it is to be drawn bold.
_FORCED_BOLD = 1 << 18

#: The first four where TeX's fonts have them and the file does not say what they are.
_LIGATURES = dict(
    zip((*(11, 12, 14, 15), *range(0xFB00, 0xFB07)), "ff fi ffi ffl ff fi fl ffi ffl st st".split(), strict=True)
)
_LINE_ENDS = (0x0A, 0x0D)
_SPACES = (0x20, 0xA0, 0x09, 0x2002, 0x2003, 0x2009, 0x202F)
#: Smaller letters whose foot is so far above the others', in sizes of these, stand raised.
_SMALLER, _RISE = 0.85, 0.15
#: Where in the height of a letter a rule strikes it out, from the top; one further down underlines it.
_STRIKE_FROM, _STRIKE_TO = 0.4, 0.72
_MOST_ANNOTATIONS = 5_000
_MOST_CHARACTERS = 100_000
_CHECKS = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_VALUES = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
#: Of a text field's flags: what is typed is a password.
_PASSWORD = 1 << 13
#: An upright rule: x, and from where to where down the page; a level one: y, and from where to where across.
Wall = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Link:
    """A box of a page that leads to an address."""

    address: str
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(slots=True)
class Marks:
    """What lies over the text of a page: upright rules, strokes, links; and what the strokes went through."""

    walls: list[Wall] = field(default_factory=list)
    strokes: list[Wall] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    #: `(text, box)` of fields and notes.
    texts: list[tuple[str, tuple[float, float, float, float]]] = field(default_factory=list)


@dataclass(slots=True)
class Line:
    """Text with its box and its look; `turned` where it is not written from left to right."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    page: int
    bold: bool = False
    turned: bool = False
    #: What somebody filled in.
    filled: bool = False

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


@dataclass(frozen=True, slots=True)
class _Look:
    size: float
    bold: bool
    upright: bool


@dataclass(slots=True)
class _Character:
    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    look: _Look


class PageFrame:
    """How a page is shown: its size in points, and the way from its own coordinates to the top left corner."""

    def __init__(self, page: Any) -> None:
        self.width, self.height = page.get_size()
        self._page = page
        ox, oy = self._device(0.0, 0.0)
        ax, ay = self._device(100.0, 0.0)
        bx, by = self._device(0.0, 100.0)
        self.matrix = (*((ax - ox) / 100, (ay - oy) / 100), *((bx - ox) / 100, (by - oy) / 100), *(ox, oy))

    def _device(self, x: float, y: float) -> tuple[float, float]:
        across, down = ctypes.c_int(), ctypes.c_int()
        width, height = int(self.width * _FINE), int(self.height * _FINE)
        pdfium.FPDF_PageToDevice(self._page, 0, 0, width, height, 0, x, y, across, down)
        return across.value / _FINE, down.value / _FINE

    def point(self, x: float, y: float) -> tuple[float, float]:
        a, b, c, d, e, f = self.matrix
        return a * x + c * y + e, b * x + d * y + f

    def box(self, x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
        (left, top), (right, bottom) = self.point(x0, y0), self.point(x1, y1)
        return min(left, right), min(top, bottom), max(left, right), max(top, bottom)


def page_lines(page: Any, number: int, frame: PageFrame, marks: Marks) -> list[Line]:
    """The pieces of lines of a page, in the order of its content; what is written sideways comes last."""
    text_page = page.get_textpage()
    try:
        gathering = _Gathering(number, marks)
        for character in _characters(text_page, frame):
            gathering.take(character)
        return gathering.finish()
    finally:
        text_page.close()


def _characters(text_page: Any, frame: PageFrame) -> Iterator[_Character | None]:
    """Each character with its box; `None` where a space or an end of line stands between two."""
    looks = _Looks(text_page, frame)
    box = pdfium.FS_RECTF()
    for index in range(text_page.count_chars()):
        code = pdfium.FPDFText_GetUnicode(text_page, index)
        if code in _SPACES or (code in _LINE_ENDS and pdfium.FPDFText_IsGenerated(text_page, index)):
            yield None
            continue
        text = _spelled(code, text_page, index)
        if not text or not pdfium.FPDFText_GetLooseCharBox(text_page, index, box):
            continue
        yield _Character(text, *frame.box(box.left, box.bottom, box.right, box.top), looks.of(index))


def _spelled(code: int, text_page: Any, index: int) -> str:
    if code == 0xFFFE or (code < 0x20 and pdfium.FPDFText_IsHyphen(text_page, index) == 1):
        return "-"
    if code < 0x20 or code in _LIGATURES:
        return _LIGATURES.get(code, "")
    # A lone half of a pair is no character.
    return "" if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF else chr(code)


class _Looks:
    """Size and weight of letters, asked once for each piece of text of the file."""

    def __init__(self, text_page: Any, frame: PageFrame) -> None:
        self._text_page = text_page
        self._frame = frame
        self._last: tuple[int | None, _Look] = (None, _Look(0.0, False, True))

    def of(self, index: int) -> _Look:
        piece = pdfium.FPDFText_GetTextObject(self._text_page, index)
        key = ctypes.cast(piece, ctypes.c_void_p).value
        if key is None or key != self._last[0]:
            self._last = key, self._look(index)
        return self._last[1]

    def _look(self, index: int) -> _Look:
        matrix = pdfium.FS_MATRIX()
        pdfium.FPDFText_GetMatrix(self._text_page, index, matrix)
        a, b, c, d, *_offset = self._frame.matrix
        across, down = a * matrix.a + c * matrix.b, b * matrix.a + d * matrix.b
        size = pdfium.FPDFText_GetFontSize(self._text_page, index)
        height = math.hypot(matrix.c, matrix.d) or 1.0
        return _Look(round(size * height, 1), self._is_bold(index), across > 0 and abs(down) < 0.2 * across)

    def _is_bold(self, index: int) -> bool:
        name, flags = ctypes.create_string_buffer(120), ctypes.c_int()
        pdfium.FPDFText_GetFontInfo(self._text_page, index, name, len(name), flags)
        return bool(_BOLD.search(name.value.decode(errors="replace"))) or bool(flags.value & _FORCED_BOLD)


class _Gathering:
    """Characters to pieces of lines, by where they stand."""

    def __init__(self, page: int, marks: Marks) -> None:
        self._page = page
        self._marks = marks
        self._lines: list[Line] = []
        self._turned: list[Line] = []
        self._current: list[_Character] = []
        self._words: list[str] = []
        self._spaced = False

    def take(self, character: _Character | None) -> None:
        if character is None:
            self._spaced = bool(self._current)
            return
        if self._current and not self._follows(character):
            self._close()
        space = ""
        if self._current:
            gap = character.x0 - self._current[-1].x1
            near = character.look.size * _WORD_GAP
            space = " " if self._spaced or (character.look.upright and gap > near) else ""
        self._words.append(space + character.text)
        self._current.append(character)
        self._spaced = False

    def finish(self) -> list[Line]:
        self._close()
        return self._lines + self._turned

    def _follows(self, character: _Character) -> bool:
        last, size = self._current[-1], max(character.look.size, 1.0)
        if last.look.upright != character.look.upright:
            return False
        if not character.look.upright:
            return len(self._current) < 1000
        beside = min(last.y1, character.y1) - max(last.y0, character.y0)
        lower = min(last.y1 - last.y0, character.y1 - character.y0)
        gap = character.x0 - last.x1
        if beside < _SAME_LINE * lower or not -size <= gap <= WIDE_GAP * max(size, last.look.size):
            return False
        return not (gap > 0 and self._marks.walls and self._is_between(last, character))

    def _is_between(self, last: _Character, character: _Character) -> bool:
        """Whether a wall stands before a new word; the word before it may run over its wall."""
        start = self._current[0].x0 if self._spaced else last.x1
        y = (last.y0 + last.y1) / 2
        return any(start - 0.5 <= x <= character.x0 + 0.5 and y0 <= y <= y1 for x, y0, y1 in self._marks.walls)

    def _close(self) -> None:
        characters, words = self._current, self._words
        self._current, self._words, self._spaced = [], [], False
        if not characters:
            return
        looks = [character.look for character in characters]
        size = max({look.size for look in looks}, key=lambda s: sum(look.size == s for look in looks))
        # A soft hyphen at a line's end is a hyphen; elsewhere it is nothing.
        words[-1] = re.sub("\xad$", "-", words[-1])
        text = one_line(clean_text(joined(self._runs(characters, words, size), self._marks.struck)))
        if not text:
            return
        line = Line(
            text,
            min(c.x0 for c in characters),
            min(c.y0 for c in characters if c.look.size >= size),
            max(c.x1 for c in characters),
            max(c.y1 for c in characters if c.look.size >= size),
            size,
            self._page,
            bold=all(look.bold for look in looks),
            turned=not looks[0].upright,
        )
        (self._turned if line.turned else self._lines).append(line)

    def _runs(self, characters: Sequence[_Character], words: Sequence[str], size: float) -> Iterator[Run]:
        """The letters with what they stand on: a note above the line, a stroke, a link."""
        x0, x1 = min(c.x0 for c in characters), max(c.x1 for c in characters)
        y0, y1 = min(c.y0 for c in characters), max(c.y1 for c in characters)
        strokes = [
            (y, *at) for y, *at in self._marks.strokes if y0 < y < y1 and x0 - size <= at[0] and at[1] <= x1 + size
        ]
        links = [
            each for each in self._marks.links if each.y0 < (y0 + y1) / 2 < each.y1 and each.x0 < x1 and x0 < each.x1
        ]
        foot = max(c.y1 for c in characters if c.look.size == size)
        run, link = Run(""), ""
        for word, letter in zip(words, characters, strict=True):
            middle, height = (letter.x0 + letter.x1) / 2, letter.y1 - letter.y0
            top, bottom = letter.y0 + _STRIKE_FROM * height, letter.y0 + _STRIKE_TO * height
            is_raised = letter.look.size <= _SMALLER * size and letter.y1 <= foot - _RISE * size
            is_struck = any(top <= y <= bottom and start - 1 <= middle <= end + 1 for y, start, end in strokes)
            is_new = letter is characters[0] or word != letter.text
            if is_new:  # a link is of whole words
                over = (each.address for each in links if each.x0 <= letter.x1 + size / 2 and middle <= each.x1)
                link = next(over, "")
            above, run = run, Run(word, int(is_raised), is_struck, link)
            if word != letter.text and above[1:] != run[1:]:
                yield Run(" ")
                run = run._replace(text=letter.text)
            yield run


# What lies beside the page's own text: links, strokes of a marker, fields of forms, free notes


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
