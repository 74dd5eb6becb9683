"""Word documents (DOCX): headings by style, lists, tables with their merged cells, charts and diagrams, notes after
what they are noted at.

The archive has been checked (`knowledge.readers.office`). Pictures, headers, footers, comments, hidden text, text
deleted or moved away and tables of contents are not read.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

import docx
from docx.opc.exceptions import OpcError
from docx.table import Table
from docx.text.paragraph import Paragraph
from lxml import etree

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, clean_text, table_text
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, drawn

_HEADING_STYLE = re.compile(r"(?:heading|titre|überschrift|título)\s*(\d)", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|liste", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"toc \d|tm \d|table of figures", re.IGNORECASE)
#: What stands around parts of a text and is none.
_HOLDERS = ("sdt", "sdtContent", "customXml", "ins", "smartTag")
_NOTES = ("footnotes", "endnotes")
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
#: Deleted text, text that was moved elsewhere, stops of tabulators, and the second form of what is there in a newer
#: one.
_UNREAD = (
    f"{_W}del",
    f"{_W}moveFrom",
    f"{_W}tabs",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
)
#: A cell that claims to cover more columns than this covers one.
_MOST_SPANNED = 100


def parse_docx(data: bytes, *, filename: str) -> ParsedDocument:
    try:
        document = docx.Document(io.BytesIO(as_plain(data)))
        outline = _read(document)
    except (OpcError, *MALFORMED_ARCHIVE) as error:
        raise damaged(filename, error) from error
    title = document.core_properties.title or ""
    return outline.finish(filename=filename, source_type=SourceType.DOCX, title=title)


def _read(document: Any) -> Outline:
    outline = Outline()
    items: list[str] = []
    #: The notes of these items, which stand after their list.
    beside: list[str] = []
    notes = _footnotes(document)
    for part in _parts(document):
        if isinstance(part, Table):
            _flush(outline, items, beside)
            outline.add(_table(part), kind="table")
            continue
        if _CONTENTS_STYLE.match(part.style.name if part.style is not None else ""):
            continue
        text = clean_text(_text(part)).strip()
        style = part.style.name if part.style is not None else ""
        if text and _is_item(part, style):
            depth = min(_number(part._p, f"{_W}pPr/{_W}numPr/{_W}ilvl", 0), 5)
            items.append(f"{'  ' * depth}- {text}")
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
            continue
        _flush(outline, items, beside)
        _paragraph(outline, part, style, text)
        for kind, said in drawn(part._p, lambda key: document.part.related_parts[key].blob):
            outline.add(said, kind=kind)
        for number in _note_numbers(part):
            outline.add(notes.pop(number, ""))
    _flush(outline, items, beside)
    for note in notes.values():
        outline.add(note)
    return outline


def _parts(document: Any) -> Iterator[Any]:
    """The paragraphs and tables of the body in order, those in content controls as well."""
    pending = list(document.element.body)[::-1]
    while pending:
        element = pending.pop()
        # Comments of XML have no name.
        match str(element.tag).removeprefix(_W):
            case "p":
                yield Paragraph(element, document._body)
            case "tbl":
                yield Table(element, document._body)
            case name if name in _HOLDERS and not _is_contents(element):
                pending.extend(list(element)[::-1])


def _is_contents(element: Any) -> bool:
    """Whether it is a list of contents that says so itself, whatever the styles of its lines are."""
    gallery = element.find(f"{_W}sdtPr/{_W}docPartObj/{_W}docPartGallery")
    return gallery is not None and gallery.get(f"{_W}val") == "Table of Contents"


def _is_hidden(run: Any) -> bool:
    mark = run.find(f"{_W}rPr/{_W}vanish")
    return mark is not None and mark.get(f"{_W}val") not in ("0", "false")


def _held(element: Any, name: str) -> Iterator[Any]:
    """The children of a name in order, those in content controls as well."""
    for child in element:
        tag = str(child.tag).removeprefix(_W)
        if tag == name:
            yield child
        elif tag in _HOLDERS:
            yield from _held(child, name)


def _footnotes(document: Any) -> dict[str, str]:
    """The texts of foot- and endnotes by kind and number, as far as the document has any."""
    notes: dict[str, str] = {}
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    for relation in document.part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if kind not in _NOTES or relation.is_external:
            continue
        for note in etree.fromstring(relation.target_part.blob, parser):
            text = clean_text("".join(note.itertext(f"{_W}t"))).strip()
            if text:
                notes[f"{kind}{note.get(f'{_W}id')}"] = text
    return notes


def _note_numbers(part: Any) -> Iterator[str]:
    for node in part._p.iter(f"{_W}footnoteReference", f"{_W}endnoteReference"):
        kind = node.tag.removeprefix(_W).removesuffix("Reference")
        yield f"{kind}s{node.get(f'{_W}id')}"


def _flush(outline: Outline, items: list[str], beside: list[str]) -> None:
    outline.add("\n".join(items), kind="list")
    for note in beside:
        outline.add(note)
    items.clear()
    beside.clear()


def _paragraph(outline: Outline, part: Any, style: str, text: str) -> None:
    level = _heading_level(part, style)
    if style == "Title" and not outline.title:
        outline.heading(1, text)
    elif level:
        outline.heading(level, text)
    else:
        runs = [run for run in part.runs if run.text.strip()]
        is_bold = bool(runs) and all(run.bold for run in runs) and "\n" not in text
        outline.add(f"**{text}**" if text and is_bold else text)


def _heading_level(part: Any, style: str) -> int:
    if match := _HEADING_STYLE.match(style):
        return int(match[1])
    level = _number(part._p, f"{_W}pPr/{_W}outlineLvl", 9)
    return level + 1 if level < 6 else 0


def _is_item(part: Any, style: str) -> bool:
    numbered = part._p.find(f"{_W}pPr/{_W}numPr") is not None
    return (numbered or bool(_LIST_STYLE.match(style))) and not _heading_level(part, style)


def _text(part: Any) -> str:
    """The paragraph's text, hyperlinks, inserted text and text moved here included, deleted text and text moved away
    not.
    """
    pieces: list[str] = []
    marks = (f"{_W}t", f"{_M}t", f"{_W}tab", f"{_W}br", f"{_W}noBreakHyphen")
    for node in part._p.iter(*marks):
        unread = any(parent.tag in _UNREAD for parent in node.iterancestors())
        if unread or _is_hidden(node.getparent()):
            continue
        match node.tag.rpartition("}")[2]:
            case "t":
                pieces.append(node.text or "")
            case "tab":
                pieces.append(" ")
            case "br":
                pieces.append("\n")
            case _:
                pieces.append("-")
    return "".join(pieces)


def _table(table: Any) -> str:
    """The table as rows of text. Cells are read as they stand: `row.cells` repeats each for every column it claims."""
    rows: list[list[str]] = []
    above: dict[int, str] = {}
    for row in _held(table._tbl, "tr"):
        column = _number(row, f"{_W}trPr/{_W}gridBefore", 0)
        current: dict[int, str] = {}
        for cell in _held(row, "tc"):
            merge = cell.find(f"{_W}tcPr/{_W}vMerge")
            continues = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
            if continues and column in above:
                current[column] = above[column]
            else:
                current[column] = _cell_text(cell, table)
            span = max(1, _number(cell, f"{_W}tcPr/{_W}gridSpan", 1))
            if span <= _MOST_SPANNED:
                current |= dict.fromkeys(range(column + 1, column + span), "")
            column += span
        rows.append(_in_columns(current))
        above = current
    return table_text(rows)


def _in_columns(cells: dict[int, str]) -> list[str]:
    """Cells in the columns they stand in, as far as these are columns."""
    if max(cells, default=0) > len(cells) + _MOST_SPANNED:
        return list(cells.values())
    return [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]


def _cell_text(cell: Any, table: Any) -> str:
    """The paragraphs of a cell, those of tables in it as well."""
    # What stands in a frame within a paragraph is read with it.
    outer = (n for n in cell.iter(f"{_W}p") if next(n.iterancestors(f"{_W}p"), None) is None)
    paragraphs = (Paragraph(node, table) for node in outer)
    texts = (clean_text(_text(paragraph)).strip() for paragraph in paragraphs)
    return "\n".join(filter(None, texts))


def _number(element: Any, path: str, default: int) -> int:
    found = element.find(path)
    value = found.get(f"{_W}val", "") if found is not None else ""
    return int(value) if value.isdecimal() and len(value) < 10 else default
