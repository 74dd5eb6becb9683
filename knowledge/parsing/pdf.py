"""PDF: lines with their font sizes, put back into headings, paragraphs and lists.

Headings are short lines set larger than the body, or named by the bookmarks. Headers and footers that repeat go, words cut at a
line's end are joined. A file that is encrypted, cut short, or only pictures is refused. Pages without text are recognised
(`knowledge.parsing.ocr`) where Tesseract is installed, else noticed.
"""

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pypdf import PdfReader
from pypdf.errors import DependencyError, PyPdfError

from knowledge.models import SourceType
from knowledge.parsing.base import (
    MALFORMED,
    Outline,
    ParsedDocument,
    check_length,
    clean_text,
    one_line,
    some_numbers,
    unreadable,
)
from knowledge.parsing.ocr import Recognised, ocr_languages, recognise_pages

_MALFORMED = (PyPdfError, DependencyError, *MALFORMED)
_HEADING_RATIO = 1.12
_HEADING_LENGTH = 140
_PAGE_NUMBER = re.compile(
    r"(?:page\s*)?[-–—]?\s*\d{1,4}\s*(?:(?:/|sur|of)\s*\d{1,4})?\s*[-–—]?", re.I
)
_BULLET = re.compile(r"(?:[-*•‣▪◦●–—\uf0b7]|\d{1,2}[.)])\s+(?=\S)")


@dataclass(slots=True)
class _Line:
    text: str
    size: float
    bold: bool
    y: float
    page: int


def parse_pdf(data: bytes, *, filename: str) -> ParsedDocument:
    reader = _open(data, filename=filename)
    pages, empty = _read_pages(reader, filename=filename)
    languages = ocr_languages() if empty else ""
    recognised = Recognised()
    if languages:
        recognised = recognise_pages(data, empty, languages=languages)
        _put_in(pages, recognised, filename=filename)
    empty = [number for number in empty if not pages[number - 1] and number not in recognised.late]
    if not any(pages):
        raise _without_text(filename, tried=bool(languages))
    lines = [line for page in _without_running_heads(pages) for line in page]
    outline = Outline()
    _Assembler(outline, lines, _bookmarks(reader)).run()
    outline.notices.extend(_notices(empty, recognised))
    return outline.finish(filename=filename, source_type=SourceType.PDF, title=_title(reader))


def _without_text(filename: str, *, tried: bool) -> Exception:
    if tried:
        message = _(
            "Ce PDF ne contient que des images, où la reconnaissance de texte (OCR) n’a rien trouvé "
            "de lisible dans le temps permis. Fournissez une numérisation plus nette, moins de pages "
            "à la fois, ou le fichier d’origine."
        )
    else:
        message = _(
            "Ce PDF ne contient que des images, sans texte. Pour qu’il soit lu, l’exploitant installe "
            "Tesseract sur le serveur (paquets tesseract-ocr et tesseract-ocr-fra) ; sinon passez le fichier "
            "par une reconnaissance de texte (OCR) avant de l’ajouter."
        )
    return unreadable(f"{filename}: no text", message)


def _notices(empty: list[int], recognised: Recognised) -> Iterator[str]:
    if recognised.texts:
        yield ngettext(
            "page %(pages)s : texte reconnu dans une image (OCR), à relire",
            "pages %(pages)s : texte reconnu dans des images (OCR), à relire",
            len(recognised.texts),
        ) % {"pages": some_numbers(sorted(recognised.texts))}
    if empty:
        yield ngettext(
            "page %(pages)s : aucun texte (image ?), ignorée",
            "pages %(pages)s : aucun texte (images ?), ignorées",
            len(empty),
        ) % {"pages": some_numbers(empty)}
    if recognised.late:
        yield ngettext(
            "page %(pages)s : image non lue, la reconnaissance de texte a pris trop de temps",
            "pages %(pages)s : images non lues, la reconnaissance de texte a pris trop de temps",
            len(recognised.late),
        ) % {"pages": some_numbers(recognised.late)}


def _put_in(pages: list[list[_Line]], recognised: Recognised, *, filename: str) -> None:
    """Give the recognised lines their pages, in the size of the rest, so that none is taken for a heading."""
    size = _main_size((line.size, line.text) for page in pages for line in page)
    for number, text in list(recognised.texts.items()):
        y = 0.0
        for written in clean_text(text).split("\n"):
            # A blank line is the end of a paragraph.
            y -= 1.2 * size
            if line_text := one_line(written):
                pages[number - 1].append(_Line(line_text, size, False, y, number))
        if not pages[number - 1]:
            del recognised.texts[number]
    check_length(sum(len(line.text) for page in pages for line in page), filename=filename)


def _main_size(written: Iterable[tuple[float, str]]) -> float:
    sizes: Counter[float] = Counter()
    for size, text in written:
        sizes[size] += len(text)
    return sizes.most_common(1)[0][0] if sizes else 11.0


def _open(data: bytes, *, filename: str) -> PdfReader:
    if b"startxref" not in data[-4096:] and b"%%EOF" not in data[-4096:]:
        raise _corrupt(filename, "no end of file")
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise _encrypted(filename)
        count = len(reader.pages)
    except DependencyError as error:
        raise _encrypted(filename) from error
    except _MALFORMED as error:
        raise _corrupt(filename, error) from error
    if count > settings.MAX_DOCUMENT_PAGES:
        raise unreadable(
            f"{filename}: {count} pages",
            _("Ce PDF a trop de pages : %(count)d, %(limit)d au plus.")
            % {"count": count, "limit": settings.MAX_DOCUMENT_PAGES},
        )
    return reader


def _encrypted(filename: str) -> Exception:
    return unreadable(
        f"{filename}: encrypted",
        _("Ce PDF est protégé par un mot de passe (chiffré). Enregistrez-le sans protection."),
    )


def _corrupt(filename: str, error: object) -> Exception:
    return unreadable(
        f"{filename}: {error}",
        _("Ce PDF est tronqué ou abîmé. Téléchargez-le ou exportez-le de nouveau."),
    )


def _read_pages(reader: PdfReader, *, filename: str) -> tuple[list[list[_Line]], list[int]]:
    pages: list[list[_Line]] = []
    empty: list[int] = []
    characters = 0
    for number, page in enumerate(reader.pages, 1):
        collector = _Collector(number)
        try:
            page.extract_text(visitor_text=collector.visit)
            lines = collector.lines()
        except _MALFORMED as error:
            raise _corrupt(filename, error) from error
        characters += sum(len(line.text) for line in lines)
        check_length(characters, filename=filename)
        pages.append(lines)
        if not lines:
            empty.append(number)
    return pages, empty


class _Collector:
    """Gathers the pieces of text of one page, in the order of its content, into lines."""

    def __init__(self, page: int) -> None:
        self._page = page
        self._pieces: list[tuple[str, float, bool, float]] = []

    def visit(self, text: str, cm: Any, tm: Any, font: Any, size: Any) -> None:
        height = math.hypot(tm[2], tm[3]) * math.hypot(cm[2], cm[3])
        y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        name = str(font.get("/BaseFont", "")) if font else ""
        bold = bool(re.search(r"bold|black|heavy|-B$", name, re.IGNORECASE))
        self._pieces.append((text, round(float(size or 0) * height, 1), bold, float(y)))

    def lines(self) -> list[_Line]:
        lines: list[_Line] = []
        current: list[tuple[str, float, bool, float]] = []
        for text, size, bold, y in self._pieces:
            for index, part in enumerate(text.split("\n")):
                if index:
                    self._close(current, lines)
                    current = []
                current.append((part, size, bold, y))
        self._close(current, lines)
        return lines

    def _close(self, pieces: list[tuple[str, float, bool, float]], lines: list[_Line]) -> None:
        written = [piece for piece in pieces if piece[0].strip()]
        # A soft hyphen at a line's end is a hyphen; elsewhere it is nothing.
        raw = "".join(piece[0] for piece in pieces).rstrip()
        text = one_line(clean_text(re.sub("\xad$", "-", raw)))
        if not written or not text:
            return
        bold = all(piece[2] for piece in written)
        size = _main_size((piece[1], piece[0]) for piece in written)
        lines.append(_Line(text, size, bold, written[0][3], self._page))


def _without_running_heads(pages: list[list[_Line]]) -> list[list[_Line]]:
    """Drop first and last lines that recur on most pages, and bare page numbers."""
    seen: Counter[str] = Counter()
    for page in pages:
        seen.update({_pattern(line) for line in _edges(page)})
    enough = max(3, math.ceil(0.5 * sum(map(bool, pages))))

    def is_running(line: _Line) -> bool:
        return bool(_PAGE_NUMBER.fullmatch(line.text)) or seen[_pattern(line)] >= enough

    kept: list[list[_Line]] = []
    for page in pages:
        edges = [id(line) for line in _edges(page) if is_running(line)]
        kept.append([line for line in page if id(line) not in edges])
    return kept


def _edges(page: list[_Line]) -> list[_Line]:
    return page[:2] + page[max(2, len(page) - 2) :]


def _pattern(line: _Line) -> str:
    return re.sub(r"\d+", "#", line.text.casefold())


def _bookmarks(reader: PdfReader) -> dict[str, int]:
    try:
        return dict(_walk_bookmarks(reader.outline, reader, 2))
    except _MALFORMED:
        # Bookmarks only help; the text is there without them.
        return {}


def _walk_bookmarks(entries: Any, reader: PdfReader, level: int) -> Iterator[tuple[str, int]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _walk_bookmarks(entry, reader, min(level + 1, 6))
        else:
            yield one_line(str(entry.title)).casefold(), level


def _title(reader: PdfReader) -> str:
    try:
        title = one_line(str((reader.metadata and reader.metadata.title) or ""))
    except _MALFORMED:
        return ""
    # Office programs leave the file's name there.
    return (
        ""
        if re.search(r"\.\w{2,4}$|^(?:untitled|sans titre|microsoft word)", title, re.I)
        else title
    )


class _Assembler:
    """Joins lines into paragraphs and gives each heading its level."""

    def __init__(self, outline: Outline, lines: list[_Line], bookmarks: dict[str, int]) -> None:
        self._outline = outline
        self._lines = lines
        self._bookmarks = bookmarks
        self._body = _main_size((line.size, line.text) for line in lines)
        larger = {line.size for line in lines if self._is_larger(line)}
        self._levels = {size: min(rank, 5) for rank, size in enumerate(sorted(larger)[::-1], 1)}
        self._single_top = sum(line.size == max(larger) for line in lines) <= 2 if larger else False
        body = [line for line in lines if line.size == self._body]
        self._width = max((len(line.text) for line in body), default=0)
        gaps = [
            round(above.y - line.y, 1)
            for above, line in zip(body, body[1:], strict=False)
            if above.page == line.page and above.y > line.y
        ]
        self._gap = sorted(gaps)[len(gaps) // 4] if gaps else 0.0
        self._words = {
            word.casefold() for line in lines for word in re.findall(r"\w+-\w+", line.text)
        }
        self._items: list[str] = []
        self._item_page = 0

    def run(self) -> None:
        index = 0
        while index < len(self._lines):
            line = self._lines[index]
            count = 1
            if level := self._heading_level(line):
                while self._continues_heading(index + count, line):
                    count += 1
                self._flush_items()
                text = self._joined(self._lines[index : index + count])
                self._outline.heading(level, text)
            else:
                while index + count < len(self._lines) and self._continues(index + count):
                    count += 1
                self._paragraph(self._lines[index : index + count])
            index += count
        self._flush_items()

    def _is_larger(self, line: _Line) -> bool:
        return line.size >= self._body * _HEADING_RATIO and len(line.text) <= _HEADING_LENGTH

    def _heading_level(self, line: _Line) -> int:
        if not any(character.isalpha() for character in line.text):
            return 0
        if marked := self._bookmarks.get(line.text.casefold()):
            return self._levels.get(line.size, marked)
        if self._is_larger(line):
            # The largest size names the document when it is used once, else its chapters.
            return self._levels[line.size] + (0 if self._single_top else 1)
        is_short = len(line.text) <= 80 and not line.text.endswith((".", ",", ";", ":"))
        if line.bold and is_short and line.text[0].isupper() and not line.text.endswith("?"):
            return min(len(self._levels) + 2, 6) if self._mostly_regular else 0
        return 0

    @property
    def _mostly_regular(self) -> bool:
        bold = sum(len(line.text) for line in self._lines if line.bold)
        return bold < 0.3 * sum(len(line.text) for line in self._lines)

    def _continues_heading(self, index: int, first: _Line) -> bool:
        if index >= len(self._lines):
            return False
        above, line = self._lines[index - 1], self._lines[index]
        return (
            (line.size, line.bold, line.page) == (first.size, first.bold, first.page)
            and line.text.casefold() not in self._bookmarks
            and 0 < above.y - line.y <= 1.6 * line.size
            and len(above.text) >= 25
            and not above.text.endswith(("?", ".", "!"))
        )

    def _continues(self, index: int) -> bool:
        """Whether a line goes on with the paragraph of the line above it."""
        above, line = self._lines[index - 1], self._lines[index]
        if self._heading_level(line) or _BULLET.match(line.text) or above.size != line.size:
            return False
        if line.bold != above.bold and (above.text.endswith("?") or line.bold):
            return False
        unfinished = not re.search(r"[.?!:;…]$", above.text)
        if above.page != line.page or line.y > above.y:
            return unfinished and (line.text[0].islower() or len(above.text) >= 0.7 * self._width)
        if self._gap and above.y - line.y > 1.35 * self._gap:
            return False
        return unfinished or len(above.text) >= 0.75 * self._width

    def _paragraph(self, lines: list[_Line]) -> None:
        text = self._joined(lines)
        if match := _BULLET.match(text):
            mark = match[0].strip()
            self._items.append(f"{mark if mark[0].isdigit() else '-'} {text[match.end() :]}")
            self._item_page = self._item_page or lines[0].page
            return
        self._flush_items()
        is_bold = all(line.bold for line in lines) and self._mostly_regular
        self._outline.add(f"**{text}**" if is_bold else text, page=lines[0].page)

    def _flush_items(self) -> None:
        self._outline.add("\n".join(self._items), kind="list", page=self._item_page)
        self._items, self._item_page = [], 0

    def _joined(self, lines: list[_Line]) -> str:
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
