"""Word documents (DOCX): headings by style, lists, tables.

The archive has been checked (`knowledge.parsing.archive`). Pictures, headers, footers, comments and deleted text are not
read.
"""

import io
import re
from typing import Any

import docx
from docx.opc.exceptions import OpcError
from docx.table import _Cell

from knowledge.models import SourceType
from knowledge.parsing.archive import MALFORMED_ARCHIVE, damaged
from knowledge.parsing.base import Outline, ParsedDocument, clean_text, table_text

_HEADING_STYLE = re.compile(r"(?:heading|titre|überschrift|título)\s*(\d)", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|liste", re.IGNORECASE)
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def parse_docx(data: bytes, *, filename: str) -> ParsedDocument:
    try:
        document = docx.Document(io.BytesIO(data))
        outline = _read(document)
    except (OpcError, *MALFORMED_ARCHIVE) as error:
        raise damaged(filename, error) from error
    title = document.core_properties.title or ""
    return outline.finish(filename=filename, source_type=SourceType.DOCX, title=title)


def _read(document: Any) -> Outline:
    outline = Outline()
    items: list[str] = []
    for part in document.iter_inner_content():
        if hasattr(part, "rows"):
            _flush(outline, items)
            outline.add(_table(part), kind="table")
            continue
        text = clean_text(_text(part)).strip()
        style = part.style.name if part.style is not None else ""
        if text and _is_item(part, style):
            depth = min(_number(part._p, f"{_W}pPr/{_W}numPr/{_W}ilvl", 0), 5)
            items.append(f"{'  ' * depth}- {text}")
            continue
        _flush(outline, items)
        _paragraph(outline, part, style, text)
    _flush(outline, items)
    return outline


def _flush(outline: Outline, items: list[str]) -> None:
    outline.add("\n".join(items), kind="list")
    items.clear()


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
    """The paragraph's text, hyperlinks and inserted text included, deleted text not."""
    pieces: list[str] = []
    for node in part._p.iter(f"{_W}t", f"{_W}tab", f"{_W}br", f"{_W}noBreakHyphen"):
        if any(parent.tag in (f"{_W}del", f"{_W}tabs") for parent in node.iterancestors()):
            continue
        match node.tag.removeprefix(_W):
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
    for row in table._tbl.iterchildren(f"{_W}tr"):
        column = _number(row, f"{_W}trPr/{_W}gridBefore", 0)
        current: dict[int, str] = {}
        for cell in row.iterchildren(f"{_W}tc"):
            merge = cell.find(f"{_W}tcPr/{_W}vMerge")
            continues = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
            if continues and column in above:
                current[column] = above[column]
            else:
                current[column] = clean_text(_Cell(cell, table).text).strip()
            column += max(1, _number(cell, f"{_W}tcPr/{_W}gridSpan", 1))
        rows.append(list(current.values()))
        above = current
    return table_text(rows)


def _number(element: Any, path: str, default: int) -> int:
    found = element.find(path)
    value = found.get(f"{_W}val", "") if found is not None else ""
    return int(value) if value.isdecimal() and len(value) < 10 else default
