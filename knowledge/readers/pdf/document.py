"""The entry to PDF: opens the file, reads its pages, and says what could not be read.

A file that is encrypted, cut short, or only pictures is refused. Pages without text are recognised
(`knowledge.readers.ocr`) where Tesseract is installed, else noticed.
"""

from collections.abc import Iterator
from typing import Any

import pypdfium2
from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.readers.base import (
    MALFORMED,
    MAX_DOCUMENT_PAGES,
    Outline,
    ParsedDocument,
    check_length,
    clean_text,
    one_line,
    some_numbers,
    unreadable,
)
from knowledge.readers.ocr import Recognised, command, recognise_pages
from knowledge.readers.pdf.assembly import Assembler, main_size
from knowledge.readers.pdf.layout import Page, arranged, drop_contents, drop_running_heads
from knowledge.readers.pdf.lines import Line, PageFrame, page_annotations, page_lines, put_in
from knowledge.readers.pdf.tables import page_rules, page_tables

_PROTECTED = (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY)
_MALFORMED = (pypdfium2.PdfiumError, *MALFORMED)


def parse_pdf(data: bytes, *, filename: str) -> ParsedDocument:
    document = _open(data, filename=filename)
    try:
        return _read(document, data, filename=filename)
    finally:
        document.close()


def _read(document: Any, data: bytes, *, filename: str) -> ParsedDocument:
    outline = Outline()
    pages = _read_pages(document, outline.struck, filename=filename)
    empty = [page.number for page in pages if not page.items]
    recognised = Recognised()
    if empty and command():
        recognised = recognise_pages(document, empty)
        _put_in(pages, recognised, filename=filename)
    empty = [n for n in empty if not pages[n - 1].items and n not in recognised.late]
    if not any(page.items for page in pages):
        message = _(
            "Ce PDF ne contient que des images, et la reconnaissance de texte (OCR) n’y a rien trouvé. Pour qu’il soit lu, l’exploitant "
            "installe Tesseract sur le serveur (paquets tesseract-ocr et tesseract-ocr-fra). S’il l’est déjà, fournissez une "
            "numérisation plus nette, moins de pages à la fois, ou le fichier d’origine."
        )
        raise unreadable(f"{filename}: no text", message)
    drop_running_heads(pages)
    drop_contents(pages)
    Assembler(outline, pages).run()
    outline.notices.extend(_notices(empty, recognised))
    return outline.finish(filename=filename, source_type=SourceType.PDF, title=_title(document))


def _notices(empty: list[int], recognised: Recognised) -> Iterator[str]:
    for said, pages in (
        (_("page(s) %(pages)s : texte reconnu dans des images (OCR), à relire"), sorted(recognised.lines)),
        (_("page(s) %(pages)s : aucun texte (image ?), ignorées"), empty),
        (_("page(s) %(pages)s : images non lues, la reconnaissance de texte a pris trop de temps"), recognised.late),
    ):
        if pages:
            yield said % {"pages": some_numbers(pages)}


def _put_in(pages: list[Page], recognised: Recognised, *, filename: str) -> None:
    """Give the recognised lines their pages, in the size of the rest, so that none is taken for a heading."""
    size = main_size(line for page in pages for line in page.lines)
    for number, found in list(recognised.lines.items()):
        page = pages[number - 1]
        for written in found:
            if text := one_line(clean_text(written.text)):
                x0, y0, x1, y1 = written.box
                box = x0 * page.width, y0 * page.height, x1 * page.width, y1 * page.height
                page.items.append(Line(text, *box, size, number))
        if not page.items:
            del recognised.lines[number]
    check_length(sum(len(line.text) for page in pages for line in page.lines), filename=filename)


def _open(data: bytes, *, filename: str) -> Any:
    if b"startxref" not in data[-4096:] and b"%%EOF" not in data[-4096:]:
        raise _corrupt(filename, "no end of file")
    try:
        document = pypdfium2.PdfDocument(data)
        count = len(document)
        document.init_forms()
    except pypdfium2.PdfiumError as error:
        # The code is that of a file before where this one was opened and has no page.
        if error.err_code in _PROTECTED and b"/Encrypt" in data:
            message = _("Ce PDF est protégé par un mot de passe (chiffré). Enregistrez-le sans protection.")
            raise unreadable(f"{filename}: encrypted", message) from error
        raise _corrupt(filename, error) from error
    except MALFORMED as error:
        raise _corrupt(filename, error) from error
    if count > MAX_DOCUMENT_PAGES:
        document.close()
        raise unreadable(
            f"{filename}: {count} pages",
            _("Ce PDF a trop de pages : %(count)d, %(limit)d au plus.") % {"count": count, "limit": MAX_DOCUMENT_PAGES},
        )
    if document.get_formtype() == pypdfium2.raw.FORMTYPE_XFA_FULL:
        document.close()
        raise unreadable(
            f"{filename}: a dynamic XFA form",
            _(
                "Ce PDF est un formulaire dynamique (XFA), que seul Adobe Acrobat affiche. Imprimez-le en PDF avec Acrobat, "
                "et ajoutez ce fichier-là."
            ),
        )
    return document


def _corrupt(filename: str, error: object) -> Exception:
    return unreadable(
        f"{filename}: {error}", _("Ce PDF est tronqué ou abîmé. Téléchargez-le ou exportez-le de nouveau.")
    )


def _read_pages(document: Any, struck: list[str], *, filename: str) -> list[Page]:
    pages: list[Page] = []
    characters = 0
    for index in range(len(document)):
        try:
            pages.append(_read_page(document, index, struck))
        except _MALFORMED as error:
            raise _corrupt(filename, error) from error
        characters += sum(len(item.text) for item in pages[-1].lines)
        check_length(characters, filename=filename)
    return pages


def _read_page(document: Any, index: int, struck: list[str]) -> Page:
    page = document[index]
    try:
        frame = PageFrame(page)
        rules = page_rules(page, frame)
        marks = page_annotations(document, page, frame)
        marks.walls = [(rule.at, rule.start, rule.end) for rule in rules.upright]
        marks.strokes += [(rule.at, rule.start, rule.end) for rule in rules.level]
        pieces = page_lines(page, index + 1, frame, marks)
        struck += marks.struck
        pieces = put_in(pieces, marks, index + 1, main_size(pieces)) if marks.texts else pieces
        items = arranged(pieces, page_tables(pieces, rules))
        return Page(index + 1, frame.width, frame.height, items)
    finally:
        page.close()


def _title(document: Any) -> str:
    try:
        return one_line(clean_text(document.get_metadata_value("Title")))
    except _MALFORMED:
        return ""
