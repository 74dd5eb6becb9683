"""The entry to the readers: bytes and a file name in, a `ParsedDocument` out.

What a file *is* decides, not what it is called. Every bound is enforced here or by the parser before it allocates;
every refusal is an `UnreadableDocumentError` whose public message says why and what to do.
"""

import re
from collections.abc import Callable, Collection
from pathlib import PurePath

from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument, check_length, unreadable
from knowledge.readers.office import office_type

_SUFFIXES = {
    **dict.fromkeys((".md", ".markdown"), SourceType.MARKDOWN),
    **dict.fromkeys((".txt", ".text"), SourceType.TEXT),
    **dict.fromkeys((".html", ".htm", ".xhtml"), SourceType.HTML),
    ".pdf": SourceType.PDF,
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), SourceType.DOCX),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), SourceType.PPTX),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), SourceType.XLSX),
    **dict.fromkeys((".odt", ".ott"), SourceType.ODT),
    **dict.fromkeys((".ods", ".ots"), SourceType.ODS),
    **dict.fromkeys((".csv", ".tsv"), SourceType.CSV),
}
SUPPORTED_SUFFIXES: frozenset[str] = frozenset(_SUFFIXES)

#: What a web server says of texts; of other formats their bytes say more.
_MEDIA_TYPES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/plain": ".txt",
}

#: By name and loaded at first use: together their libraries take 30 MB, which an idle process does not need.
_PARSERS = {
    SourceType.MARKDOWN: "knowledge.readers.markdown.parse_markdown",
    SourceType.TEXT: "knowledge.readers.text.parse_text",
    SourceType.HTML: "knowledge.readers.html.parse_html",
    SourceType.PDF: "knowledge.readers.pdf.document.parse_pdf",
    SourceType.DOCX: "knowledge.readers.word.parse_docx",
    SourceType.PPTX: "knowledge.readers.powerpoint.parse_pptx",
    SourceType.XLSX: "knowledge.readers.spreadsheet.parse_xlsx",
    SourceType.CSV: "knowledge.readers.spreadsheet.parse_csv",
    **dict.fromkeys((SourceType.ODT, SourceType.ODS), "knowledge.readers.opendocument.parse_opendocument"),
}
#: What a file that is not one of these by its first bytes cannot be.
_OFFICE = (SourceType.DOCX, SourceType.PPTX, SourceType.XLSX, SourceType.ODT, SourceType.ODS)
_BINARY = (SourceType.PDF, *_OFFICE)
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*", b"BM")
#: Atomic, since a pattern that goes back would try every end of each comment.
_HTML_START = re.compile(
    rb"(?>\s*(?:<\?xml[^>]*>)?\s*)(?>(?:<!--(?>.*?-->)\s*)*)<(?:!doctype\s+html|html)\b", re.I | re.S
)


def parse_document(data: bytes, *, filename: str, pages: Collection[str] = ()) -> ParsedDocument:
    """Read a file of any supported format; raise `UnreadableDocumentError` for others. `pages`: names of its site."""
    if not data.strip():
        raise unreadable(f"{filename}: empty", _("Ce fichier est vide."))
    check_size(len(data), filename=filename)
    source_type = _source_type(data, filename=filename)
    parse: Callable[..., ParsedDocument] = import_string(_PARSERS[source_type])
    of_site = {"pages": pages} if source_type is SourceType.HTML else {}
    parsed = parse(data, filename=filename, **of_site)
    check_length(sum(len(block.text) + len(block.question) for block in parsed.blocks), filename=filename)
    return parsed


def suffix_of_page(data: bytes, *, path: str, media_type: str) -> str:
    """The suffix that says a page's format: by its bytes, its name, or its server; raises for any other format."""
    if b"%PDF-" in data[:1024]:
        return ".pdf"
    if data.startswith(_ZIP):
        return f".{office_type(data, filename=path)}"
    named = _suffix(path)
    if _HTML_START.match(data[:4096]):
        return ".html"
    if (_SUFFIXES.get(named, SourceType.HTML) not in (*_BINARY, SourceType.HTML)) and media_type != "text/html":
        return named
    if media_type not in _MEDIA_TYPES:
        raise unreadable(
            f"media type {media_type[:100]!r}",
            _("Ce type de contenu n’est pas pris en charge : %(type)s.") % {"type": media_type or "?"},
        )
    return _MEDIA_TYPES[media_type]


def check_size(size: int, *, filename: str) -> None:
    """Refuse a file by its size alone: a caller that knows it need not read the file."""
    if size > settings.MAX_DOCUMENT_BYTES:
        raise unreadable(
            f"{filename}: {size} bytes",
            _("Ce fichier est trop gros : %(size)d octets, %(limit)d au plus.")
            % {"size": size, "limit": settings.MAX_DOCUMENT_BYTES},
        )


def refuse_unsupported(start: bytes, *, filename: str) -> None:
    """Raise `UnreadableDocumentError` for what a name and the first kilobyte say is not read here."""
    if b"%PDF-" in start[:1024] or start.startswith(_ZIP):
        return
    if start.startswith(_OLE):
        raise unreadable(
            f"{filename}: OLE container",
            _(
                "Ce fichier est un document Office protégé par un mot de passe ou dans un ancien format "
                "(.doc, .xls, .ppt). Enregistrez-le en .docx, .xlsx ou .pptx sans mot de passe."
            ),
        )
    if start.startswith(b"{\\rtf"):
        raise unreadable(f"{filename}: RTF", _("Ce fichier est en RTF. Enregistrez-le en .docx ou en .odt."))
    if (suffix := _suffix(filename)) in (".eml", ".msg"):
        message = _("Ce fichier est un courriel. Imprimez-le en PDF, ou ajoutez ses pièces jointes une à une.")
        raise unreadable(f"{filename}: a mail", message)
    is_picture = start.startswith(_PICTURES) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")
    if is_picture and (b"\0" in start[:1024]):
        raise unreadable(
            f"{filename}: picture", _("Ce fichier est une image. Passez-la par une reconnaissance de texte (OCR).")
        )
    if suffix not in _SUFFIXES:
        raise unreadable(
            f"{filename}: unsupported suffix",
            _("Format non pris en charge (%(suffix)s). Formats acceptés : %(formats)s.")
            % {"suffix": suffix or "?", "formats": ", ".join(sorted(SUPPORTED_SUFFIXES))},
        )


def _suffix(filename: str) -> str:
    return PurePath(filename.replace("\\", "/")).suffix.lower()


def _source_type(data: bytes, *, filename: str) -> SourceType:
    suffix = _suffix(filename)
    if b"%PDF-" in data[:1024]:
        return SourceType.PDF
    if data.startswith(_ZIP):
        return office_type(data, filename=filename)
    refuse_unsupported(data, filename=filename)
    declared = _SUFFIXES[suffix]
    if declared in _BINARY:
        raise unreadable(
            f"{filename}: not a {declared}",
            _("Ce fichier est nommé %(suffix)s mais n’en est pas un, ou son début est abîmé.") % {"suffix": suffix},
        )
    if declared in (SourceType.TEXT, SourceType.MARKDOWN) and _HTML_START.match(data[:4096]):
        return SourceType.HTML
    return declared
