"""Word documents (DOCX): headings by style, lists, tables with their merged cells, charts and diagrams, notes after
what they are noted at.

The archive has been checked (`knowledge.readers.office`). Pictures, headers, footers, comments, hidden text, text
moved away and tables of contents are not read; struck and deleted text is noticed.
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
from knowledge.readers.base import Outline, ParsedDocument, Run, clean_text, joined, one_line, table_text
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, drawn

_HEADING_STYLE = re.compile(r"(?:heading|titre|überschrift|título)\s*(\d)", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|liste", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"toc \d|tm \d|table of figures", re.IGNORECASE)
#: What stands around parts of a text and is none.
_HOLDERS = ("sdt", "sdtContent", "customXml", "ins", "smartTag")
_NOTES = ("footnotes", "endnotes")
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
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
_MOST_SPANNED, _LONGEST_STYLES = 100, 20


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
    #: The notes of items, which stand after their list.
    beside: list[str] = []
    notes = _footnotes(document)
    for part in _parts(document):
        style = "" if isinstance(part, Table) or part.style is None else part.style.name
        text = "" if isinstance(part, Table) or _CONTENTS_STYLE.match(style) else _text(part, outline)
        if text and _is_item(part, style):
            outline.item(one_line(text), depth=_number(part._p, f"{_W}pPr/{_W}numPr/{_W}ilvl", 0))
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
            continue
        for note in beside:
            outline.add(note)
        beside.clear()
        outline.end_list()
        if isinstance(part, Table):
            headers = len(part._tbl.findall(f"{_W}tr/{_W}trPr/{_W}tblHeader"))
            outline.add(table_text(_table(part, outline), headers=headers), kind="table")
        elif not _CONTENTS_STYLE.match(style):
            _paragraph(outline, part, style, text)
            for kind, said in drawn(part._p, lambda key: document.part.related_parts[key].blob):
                outline.add(said, kind=kind)
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
    for note in beside:
        outline.add(note)
    for note in notes.values():
        outline.add(note)
    return outline


def _parts(document: Any) -> Iterator[Any]:
    """The paragraphs and tables of the body in order, those in content controls as well, and in boxes after theirs."""
    pending = list(document.element.body)[::-1]
    while pending:
        element = pending.pop()
        # Comments of XML have no name.
        match str(element.tag).removeprefix(_W):
            case "p":
                yield Paragraph(element, document._body)
                boxes = [
                    box
                    for box in element.iter(f"{_W}txbxContent")
                    if not any(a.tag in _UNREAD for a in box.iterancestors())
                ]
                outer = (box for box in boxes if next(box.iterancestors(f"{_W}p")) is element)
                pending.extend([inner for box in outer for inner in box][::-1])
            case "tbl":
                yield Table(element, document._body)
            case name if name in _HOLDERS and not _is_contents(element):
                pending.extend(list(element)[::-1])


def _is_contents(element: Any) -> bool:
    """Whether it is a list of contents that says so itself, whatever the styles of its lines are."""
    gallery = element.find(f"{_W}sdtPr/{_W}docPartObj/{_W}docPartGallery")
    return gallery is not None and gallery.get(f"{_W}val") == "Table of Contents"


def _is_on(run: Any, name: str) -> bool:
    mark = run.find(f"{_W}rPr/{_W}{name}")
    return mark is not None and mark.get(f"{_W}val") not in ("0", "false", "off")


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
    """By the paragraph itself, its style or one that this is based on."""
    level = _number(part._p, f"{_W}pPr/{_W}outlineLvl", 9)
    based = part.style
    for _step in range(_LONGEST_STYLES):
        if level < 9 or based is None:
            break
        if match := _HEADING_STYLE.match(based.name or ""):
            return int(match[1])
        level, based = _number(based.element, f"{_W}pPr/{_W}outlineLvl", 9), based.base_style
    return level + 1 if level < 6 else 0


def _is_item(part: Any, style: str) -> bool:
    numbered = part._p.find(f"{_W}pPr/{_W}numPr") is not None
    return (numbered or bool(_LIST_STYLE.match(style))) and not _heading_level(part, style)


def _text(part: Any, outline: Outline) -> str:
    outline.struck += ["".join(one.itertext(f"{_W}delText")) for one in part._p.iter(f"{_W}del")]
    return clean_text(joined(_runs(part), outline.struck)).strip()


def _runs(part: Any) -> Iterator[Run]:
    """The paragraph's text, inserted text and text moved here included; that of boxes in it is read after it."""
    for node in part._p.iter(f"{_W}t", f"{_M}t", f"{_W}tab", f"{_W}br", f"{_W}noBreakHyphen"):
        run, around = node.getparent(), list(node.iterancestors())
        is_elsewhere = next(holder for holder in around if holder.tag == f"{_W}p") is not part._p
        if is_elsewhere or _is_on(run, "vanish") or any(holder.tag in _UNREAD for holder in around):
            continue
        height = run.find(f"{_W}rPr/{_W}vertAlign")
        key = next((holder.get(f"{_R}id") for holder in around if holder.tag == f"{_W}hyperlink"), None)
        relation = part.part.rels.get(key)
        yield Run(
            {f"{_W}tab": " ", f"{_W}br": "\n", f"{_W}noBreakHyphen": "-"}.get(node.tag, node.text or ""),
            {"superscript": 1, "subscript": -1}.get(height.get(f"{_W}val") if height is not None else "", 0),
            _is_on(run, "strike") or _is_on(run, "dstrike"),
            relation.target_ref if relation is not None and relation.is_external else "",
        )


def _table(table: Any, outline: Outline) -> list[list[str]]:
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
                current[column] = _cell_text(cell, table, outline)
            span = max(1, _number(cell, f"{_W}tcPr/{_W}gridSpan", 1))
            if span <= _MOST_SPANNED:
                current |= dict.fromkeys(range(column + 1, column + span), "")
            column += span
        rows.append(_in_columns(current))
        above = current
    return rows


def _in_columns(cells: dict[int, str]) -> list[str]:
    """Cells in the columns they stand in, as far as these are columns."""
    if max(cells, default=0) > len(cells) + _MOST_SPANNED:
        return list(cells.values())
    return [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]


def _cell_text(cell: Any, table: Any, outline: Outline) -> str:
    """The paragraphs of a cell, those of tables and boxes in it as well."""
    return "\n".join(filter(None, (_text(Paragraph(node, table), outline) for node in cell.iter(f"{_W}p"))))


def _number(element: Any, path: str, default: int) -> int:
    found = element.find(path)
    value = found.get(f"{_W}val", "") if found is not None else ""
    return int(value) if value.isdecimal() and len(value) < 10 else default
