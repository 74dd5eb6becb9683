"""What Office files share: the archive they are, charts and diagrams, and what is said of pictures, in pages as well.

An archive is checked before anything is unpacked: its declared size and ratio (`zipfile` reads no more than an entry
declares), and no part may declare a document type, so no entity can expand.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator
from typing import Any

from django.utils.translation import gettext as _
from lxml import etree

from knowledge.errors import UnreadableDocumentError
from knowledge.models import SourceType
from knowledge.readers.base import MALFORMED, BlockKind, clean_text, one_line, table_text, unreadable

#: What an archive (DOCX, XLSX, PPTX) may unpack to, and its highest ratio of unpacked to packed bytes: zip bombs.
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
MAX_UNPACK_RATIO = 200

#: Office 365 numbers the main part of some files.
_MAIN_PARTS = {
    r"word/document\d*\.xml": SourceType.DOCX,
    r"xl/workbook\d*\.xml": SourceType.XLSX,
    r"ppt/presentation\d*\.xml": SourceType.PPTX,
}
_OPEN = {"text": SourceType.ODT, "spreadsheet": SourceType.ODS}
#: Word's "Strict Open XML" names what the usual, transitional form names by years (ISO/IEC 29500 parts 1 and 4).
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/"
#: The types of main parts: templates, shows and files with macros have others.
_TYPES = "[Content_Types].xml"
_WORD_MAIN, _POWERPOINT_MAIN = (
    re.compile(rb"(application/vnd\.)(?:%b)\.[\w.]+\.main\+xml" % names)
    for names in (
        rb"ms-word|openxmlformats-officedocument\.wordprocessingml",
        rb"ms-powerpoint|openxmlformats-officedocument\.presentationml",
    )
)
#: What a program calls a picture whose author wrote nothing, or says of it.
PICTURE_NAME = re.compile(
    r"(?i)[^\n]{0,200}\.(?:png|jpe?g|gif|svg|webp|avif)|.*(?:générée? automatiquement|automatically generated|AI-gen).*"
)
_XML = (".xml", ".rels")
_RELATIONSHIPS = "_rels/.rels"
#: What the XML parser raises derives from `SyntaxError`.
MALFORMED_ARCHIVE = (SyntaxError, zipfile.BadZipFile, zlib.error, *MALFORMED)


def office_type(data: bytes, *, filename: str) -> SourceType:
    """The format of an Office file that may be opened; raises for every other archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_sizes(entries, len(data), filename=filename)
            names = archive.namelist()
            # OpenDocument files and e-books say what they are in a part of their own.
            named = archive.read("mimetype")[:100].decode("ascii", "replace").strip() if "mimetype" in names else ""
            kind = _OPEN.get(named.removeprefix("application/vnd.oasis.opendocument.").removesuffix("-template"))
            found = [t for part, t in _MAIN_PARTS.items() if any(re.fullmatch(part, name) for name in names)]
            if named == "application/epub+zip":
                message = _("Ce fichier est un livre numérique (EPUB). Exportez-le en PDF, en .docx ou en HTML.")
                raise unreadable(f"{filename}: an e-book", message)
            if not found and kind is None:
                raise unreadable(
                    f"{filename}: no Office document",
                    _(
                        "Cette archive n’est ni un document Word, Excel ou PowerPoint (.docx, .xlsx, .pptx), ni un "
                        "texte ou un classeur OpenDocument (.odt, .ods). Exportez le document dans un de ces formats, "
                        "en PDF ou en HTML."
                    ),
                )
            if kind and b"encryption-data" in archive.read("META-INF/manifest.xml"):
                raise _protected(filename)
            # The list of an OpenDocument's parts may declare a type: it is not read as XML.
            _check_parts(archive, [e for e in entries if not (kind and "/" in e.filename)], filename=filename)
            return kind or found[0]
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, KeyError) as error:
        raise damaged(filename, error) from error


def as_plain(data: bytes) -> bytes:
    """A checked file with the names that the libraries read, which know no strict files, templates nor shows."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        types = archive.read(_TYPES) if _TYPES in names else b""
        named = _WORD_MAIN.sub(rb"\1openxmlformats-officedocument.wordprocessingml.document.main+xml", types)
        named = _POWERPOINT_MAIN.sub(rb"\1openxmlformats-officedocument.presentationml.presentation.main+xml", named)
        is_strict = _RELATIONSHIPS in names and _STRICT.search(archive.read(_RELATIONSHIPS)) is not None
        if named == types and not is_strict:
            return data
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as renamed:
            for name in names:
                content = named if name == _TYPES else archive.read(name)
                is_read = is_strict and name.endswith(_XML)
                renamed.writestr(name, _STRICT.sub(_TRANSITIONAL, content) if is_read else content)
    return written.getvalue()


def damaged(filename: str, error: BaseException) -> UnreadableDocumentError:
    return unreadable(
        f"{filename}: {type(error).__name__}: {error}",
        _("Ce document bureautique est tronqué ou abîmé. Rouvrez-le et enregistrez-le de nouveau."),
    )


def _check_sizes(entries: list[zipfile.ZipInfo], packed: int, *, filename: str) -> None:
    unpacked = sum(entry.file_size for entry in entries)
    too_dense = unpacked > packed * MAX_UNPACK_RATIO
    if unpacked > MAX_UNPACKED_BYTES or too_dense:
        raise unreadable(
            f"{filename}: unpacks from {packed} to {unpacked} bytes",
            _("Ce fichier se décompresse en %(size)d octets : il est refusé (bombe de compression).")
            % {"size": unpacked},
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise _protected(filename)


def _protected(filename: str) -> UnreadableDocumentError:
    return unreadable(f"{filename}: encrypted", _("Ce fichier est protégé par un mot de passe."))


def _check_parts(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], *, filename: str) -> None:
    for entry in entries:
        if entry.filename.endswith(_XML):
            content = archive.read(entry)
            if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                raise unreadable(
                    f"{filename}: document type in {entry.filename}",
                    _("Ce document contient des entités XML interdites : il est refusé."),
                )


_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/"
_A, _CHART, _DIAGRAM = (f"{{{_DRAWING}{name}}}" for name in ("main", "chart", "diagram"))
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"


def picture_text(said: str) -> str:
    """What a picture shows, where its author says so; in brackets, as it is no sentence of the page."""
    said = one_line(clean_text(said))
    return f"[{said}]" if said and not PICTURE_NAME.fullmatch(said) else ""


def parsed_xml(content: bytes) -> Any:
    return etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))


def within(element: Any, name: str, around: Container[str]) -> Iterator[Any]:
    """The children of a name in order, those in groups as well."""
    for child in element:
        if child.tag == name:
            yield child
        elif child.tag in around:
            yield from within(child, name, around)


def drawn(element: Any, related: Callable[[str], bytes]) -> Iterator[tuple[BlockKind, str]]:
    """The texts of charts and diagrams, in order. `related` gives a part by its identifier, or raises `KeyError`."""
    for found in element.iter(f"{_DIAGRAM}relIds", f"{_CHART}chart"):
        is_chart = found.tag == f"{_CHART}chart"
        key = found.get(f"{_R}id" if is_chart else f"{_R}dm")
        try:
            tree = parsed_xml(related(key or ""))
        except KeyError:
            # A drawing without its part is a hole in the picture, not in the text.
            continue
        if is_chart:
            yield "prose", "\n\n".join(paragraphs(tree))
            yield "table", table_text(_values(tree))
        else:
            yield "list", "\n".join(f"- {text}" for text in paragraphs(tree))


def paragraphs(tree: Any) -> Iterator[str]:
    """The texts of a drawing, such as those of its boxes."""
    for paragraph in tree.iter(f"{_A}p"):
        if text := one_line(clean_text("".join(paragraph.itertext(f"{_A}t")))):
            yield text


def _values(tree: Any) -> list[list[str]]:
    """The table a chart is drawn from: a column for each series, a row for each category."""
    names = [""]
    rows: dict[str, list[str]] = {}
    for series in tree.iter(f"{_CHART}ser"):
        names.append(" ".join(_points(series, "tx").values()))
        labels = _points(series, "cat") or _points(series, "xVal")
        values = _points(series, "val") or _points(series, "yVal")
        for number in labels | values:
            row = rows.setdefault(number, [labels.get(number, "")])
            row += [""] * (len(names) - 1 - len(row)) + [values.get(number, "")]
    return [names, *rows.values()] if rows else []


def _points(series: Any, name: str) -> dict[str, str]:
    """What is said at each point, by its number."""
    return {
        point.get("idx", ""): one_line(clean_text(point.findtext(f"{_CHART}v") or ""))
        for point in series.iterfind(f"{_CHART}{name}//{_CHART}pt")
    }
