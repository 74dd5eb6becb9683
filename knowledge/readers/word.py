"""Word documents (DOCX): headings by style, lists and their numbers, tables with their merged cells, check boxes,
charts and diagrams, notes after what they are noted at, headers and footers once at the end.

The archive has been checked (`knowledge.readers.office`). Pictures, comments, hidden text, text moved away, prompts of
empty fields and tables of contents are not read; struck and deleted text is noticed.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import docx
from docx.opc.exceptions import OpcError
from docx.table import Table
from docx.text.paragraph import Paragraph
from lxml import etree

from knowledge.models import SourceType
from knowledge.readers.base import (
    Outline,
    ParsedDocument,
    Run,
    clean_text,
    counted,
    is_page_count,
    joined,
    one_line,
    table_text,
)
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, drawn

_HEADING_STYLE = re.compile(r"(?:heading|titre|überschrift|título)\s*(\d)", re.IGNORECASE)
_LIST_STYLE = re.compile(r"list|liste", re.IGNORECASE)
_CONTENTS_STYLE = re.compile(r"toc \d|tm \d|table of figures", re.IGNORECASE)
#: What stands around parts of a text and is none.
_HOLDERS = ("sdt", "sdtContent", "customXml", "ins", "smartTag")
_NOTES = ("footnotes", "endnotes")
_HIDDEN_MARKS = ("del", "moveFrom", "vanish")
#: How `counted` names a form; any other counts in digits.
_FORMS = {"none": "", "decimalZero": "01", "lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}
#: Styles that are based on one another, as far as they are followed.
_LONGEST_STYLES = 20
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
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
    outline, numbers = Outline(), _Numbers(document)
    #: The notes of items, which stand after their list.
    beside: list[str] = []
    notes = _footnotes(document)
    for part in _parts(document):
        style = "" if isinstance(part, Table) or part.style is None else part.style.name
        text = "" if isinstance(part, Table) or _CONTENTS_STYLE.match(style) else _text(part, outline)
        level = 0 if isinstance(part, Table) else _heading_level(part, style)
        mark, depth = (None if isinstance(part, Table) else numbers.mark(part)) or ("", 0)
        if text and not level and (mark or _LIST_STYLE.match(style)):
            outline.item(one_line(text), depth=depth, mark=mark or "-")
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
            continue
        for note in beside:
            outline.add(note)
        beside.clear()
        outline.end_list()
        if isinstance(part, Table):
            headers = len(part._tbl.findall(f"{_W}tr/{_W}trPr/{_W}tblHeader"))
            outline.add(table_text(_table(part, outline, numbers), headers=headers), kind="table")
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
        elif not _CONTENTS_STYLE.match(style):
            _paragraph(outline, part, style, level, text, mark)
            for kind, said in drawn(part._p, lambda key: document.part.related_parts[key].blob):
                outline.add(said, kind=kind)
            beside.extend(notes.pop(number, "") for number in _note_numbers(part))
    for note in beside:
        outline.add(note)
    for note in notes.values():
        outline.add(note)
    outline.leave_sections()
    outline.add("\n\n".join(dict.fromkeys(_around_pages(document, outline))))
    return outline


def _around_pages(document: Any, outline: Outline) -> Iterator[str]:
    """The paragraphs of the headers and footers that are shown, but for counts of pages."""
    has_even = document.settings.odd_and_even_pages_header_footer
    for section in document.sections:
        shown = [section.header, section.footer]
        if section.different_first_page_header_footer:
            shown += [section.first_page_header, section.first_page_footer]
        if has_even:
            shown += [section.even_page_header, section.even_page_footer]
        for around in shown:
            if not around.is_linked_to_previous:
                texts = (_text(Paragraph(node, around), outline) for node in around._element.iter(f"{_W}p"))
                yield from (text for text in texts if not is_page_count(text))


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
            lines = ("".join(line.itertext(f"{_W}t")) for line in note.iter(f"{_W}p"))
            text = clean_text("\n".join(lines)).strip()
            if text:
                notes[f"{kind}{note.get(f'{_W}id')}"] = text
    return notes


def _note_numbers(part: Any) -> Iterator[str]:
    for node in part._element.iter(f"{_W}footnoteReference", f"{_W}endnoteReference"):
        kind = node.tag.removeprefix(_W).removesuffix("Reference")
        yield f"{kind}s{node.get(f'{_W}id')}"


def _paragraph(outline: Outline, part: Any, style: str, level: int, text: str, mark: str) -> None:
    if style == "Title" and not outline.title:
        outline.heading(1, text)
    elif level and text:
        # What is numbered is a part of the document, not its title.
        is_numbered = mark not in ("", "-")
        outline.heading(level, f"{mark} {text}" if is_numbered else text, is_part=is_numbered)
    else:
        runs = [run for run in part.runs if run.text.strip()]
        is_bold = bool(runs) and all(run.bold for run in runs) and "\n" not in text
        outline.add(f"**{text}**" if text and is_bold else text)


def _heading_level(part: Any, style: str) -> int:
    """By the paragraph itself, its style or one that this is based on."""
    level = _number_at(part._p, "pPr/outlineLvl", 9)
    based = part.style
    for _step in range(_LONGEST_STYLES):
        if level < 9 or based is None:
            break
        if match := _HEADING_STYLE.match(based.name or ""):
            return int(match[1])
        level, based = _number_at(based.element, "pPr/outlineLvl", 9), based.base_style
    return level + 1 if level < 6 else 0


def _text(part: Any, outline: Outline) -> str:
    outline.struck += ["".join(one.itertext(f"{_W}delText")) for one in part._p.iter(f"{_W}del")]
    return clean_text(joined(_runs(part), outline.struck)).strip()


def _runs(part: Any) -> Iterator[Run]:
    """The paragraph's text, inserted text and text moved here included; that of boxes in it is read after it."""
    for node in part._p.iter(f"{_M}t", *_SIGNS):
        run, around = node.getparent(), list(node.iterancestors())
        is_elsewhere = next(holder for holder in around if holder.tag == f"{_W}p") is not part._p
        if (
            is_elsewhere
            or _is_on(run, "vanish")
            or any(holder.tag in _UNREAD or _is_prompt(holder) for holder in around)
        ):
            continue
        height = run.find(f"{_W}rPr/{_W}vertAlign")
        key = next((holder.get(f"{_R}id") for holder in around if holder.tag == f"{_W}hyperlink"), None)
        relation = part.part.rels.get(key)
        yield Run(
            _SIGNS.get(node.tag, _said)(node),
            {"superscript": 1, "subscript": -1}.get(height.get(f"{_W}val") if height is not None else "", 0),
            _is_on(run, "strike") or _is_on(run, "dstrike"),
            relation.target_ref if relation is not None and relation.is_external else "",
        )


def _said(node: Any) -> str:
    return node.text or ""


def _symbol(node: Any) -> str:
    """A sign of Wingdings as the private character that `clean_text` knows; any other symbol is a picture."""
    code = re.fullmatch(r"(?:F0)?([0-9A-F]{2})", node.get(f"{_W}char", ""), re.IGNORECASE)
    return chr(0xF000 + int(code[1], 16)) if code and node.get(f"{_W}font") == "Wingdings" else ""


def _field(node: Any) -> str:
    """The box of a form's check box."""
    box = node.find(f"{_W}ffData/{_W}checkBox")
    if box is None:
        return ""
    states = [state for name in ("checked", "default") if (state := box.find(f"{_W}{name}")) is not None]
    return "☒" if states and states[0].get(f"{_W}val") not in ("0", "false", "off") else "☐"


def _is_prompt(holder: Any) -> bool:
    """Whether a content control only says what to type there."""
    return holder.tag == f"{_W}sdt" and holder.find(f"{_W}sdtPr/{_W}showingPlcHdr") is not None


#: What stands in a run, and what it says.
_SIGNS: dict[str, Callable[[Any], str]] = {
    f"{_W}t": _said,
    f"{_W}tab": lambda _node: " ",
    f"{_W}br": lambda _node: "\n",
    f"{_W}noBreakHyphen": lambda _node: "-",
    f"{_W}sym": _symbol,
    f"{_W}fldChar": _field,
}


def _table(table: Any, outline: Outline, numbers: "_Numbers") -> list[list[str]]:
    """The table as rows of text. Cells are read as they stand: `row.cells` repeats each for every column it claims."""
    rows: list[list[str]] = []
    above: dict[int, str] = {}
    for row in _held(table._tbl, "tr"):
        column = _number_at(row, "trPr/gridBefore", 0)
        current: dict[int, str] = {}
        for cell in _held(row, "tc"):
            merge = cell.find(f"{_W}tcPr/{_W}vMerge")
            continues = merge is not None and merge.get(f"{_W}val", "continue") == "continue"
            if continues and column in above:
                current[column] = above[column]
            else:
                current[column] = _cell_text(cell, table, outline, numbers)
            span = max(1, _number_at(cell, "tcPr/gridSpan", 1))
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


def _cell_text(cell: Any, table: Any, outline: Outline, numbers: "_Numbers") -> str:
    """The paragraphs of a cell with their numbers, those of tables and boxes in it as well."""
    texts = []
    for node in cell.iter(f"{_W}p"):
        part = Paragraph(node, table)
        text, (mark, _depth) = _text(part, outline), numbers.mark(part) or ("", 0)
        texts.append(f"{mark} {text}" if text and mark not in ("", "-") else text)
    return "\n".join(filter(None, texts))


# Numbers that Word counts


def _value(element: Any, path: str, default: str = "") -> str:
    found = element.find("/".join(_W + name for name in path.split("/"))) if element is not None else None
    return default if found is None else found.get(f"{_W}val", default)


def _number_at(element: Any, path: str, default: int) -> int:
    value = _value(element, path)
    return int(value) if value.isdecimal() and len(value) < 10 else default


@dataclass(frozen=True, slots=True)
class _Level:
    start: int
    form: str
    text: str
    is_legal: bool
    #: A paragraph of a level above this one starts it anew.
    restarts_below: int
    style: str


@dataclass(frozen=True, slots=True)
class _List:
    """`key` names what it counts on with; `anew` are the levels that it starts anew."""

    key: str
    levels: Mapping[int, _Level]
    anew: tuple[int, ...]


class _Numbers:
    """What Word counts by itself (« Article 4 », « b) »), by `numbering.xml` and the styles; asked once a paragraph, in order.

    Lists of one abstract numbering count on together; a list that overrides the start of a level starts it anew.
    """

    def __init__(self, document: Any) -> None:
        parts = [r.target_part for r in document.part.rels.values() if r.reltype.endswith("/numbering")]
        root = parts[0].element if parts else None
        self._lists: dict[str, _List] = {}
        if root is not None:
            abstracts = {found.get(f"{_W}abstractNumId"): found for found in root.findall(f"{_W}abstractNum")}
            linked = {_value(found, "styleLink"): found for found in abstracts.values()}
            for number in root.findall(f"{_W}num"):
                abstract = abstracts.get(_value(number, "abstractNumId"))
                abstract = linked.get(_value(abstract, "numStyleLink", "?"), abstract)
                if abstract is not None:
                    self._lists[number.get(f"{_W}numId")] = _list(number, abstract)
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def mark(self, paragraph: Any) -> tuple[str, int] | None:
        """What stands before a paragraph, `-` for a bullet, and its level; `None` for one of no list."""
        number, depth = self._place(paragraph)
        found = self._lists.get(number)
        level = found.levels.get(depth) if found is not None else None
        # A mark that is deleted or hidden itself is not counted.
        is_hidden = any(paragraph._p.find(f"{_W}pPr/{_W}rPr/{_W}{mark}") is not None for mark in _HIDDEN_MARKS)
        if found is None or level is None or is_hidden:
            return None
        counts = self._counts.setdefault(found.key, {})
        if number not in self._begun:
            self._begun.add(number)
            for anew in found.anew:
                counts.pop(anew, None)
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in [each for each in counts if each > depth]:
            if deeper not in found.levels or depth < found.levels[deeper].restarts_below:
                del counts[deeper]
        if level.form == "bullet":
            return "-", depth
        return re.sub(r"%(\d)", lambda at: _shown(found, counts, int(at[1]) - 1, level), level.text).strip(), depth

    def _place(self, paragraph: Any) -> tuple[str, int]:
        """The list and the level of a paragraph, by itself, its style or one that this is based on."""
        direct = paragraph._p.find(f"{_W}pPr/{_W}numPr")
        number = _value(direct, "numId")
        if number:
            return number, _number_at(direct, "ilvl", 0)
        style = paragraph.style
        for _step in range(_LONGEST_STYLES):
            if style is None:
                break
            named = style.element.find(f"{_W}pPr/{_W}numPr")
            if number := _value(named, "numId"):
                levels = self._lists[number].levels if number in self._lists else {}
                of_style = (depth for depth, level in levels.items() if level.style == style.style_id)
                return number, _number_at(direct, "ilvl", next(of_style, _number_at(named, "ilvl", 0)))
            style = style.base_style
        return "", 0


def _list(number: Any, abstract: Any) -> _List:
    overrides = {found.get(f"{_W}ilvl"): found for found in number.findall(f"{_W}lvlOverride")}
    levels, anew = {}, []
    for found in abstract.findall(f"{_W}lvl"):
        override = overrides.get(found.get(f"{_W}ilvl"))
        own = override.find(f"{_W}lvl") if override is not None else None
        depth = int(found.get(f"{_W}ilvl", 0))
        levels[depth] = _level(found if own is None else own, depth, override)
        if override is not None and override.find(f"{_W}startOverride") is not None:
            anew.append(depth)
    return _List(abstract.get(f"{_W}abstractNumId", ""), levels, tuple(anew))


def _level(found: Any, depth: int, override: Any) -> _Level:
    return _Level(
        start=_number_at(override, "startOverride", _number_at(found, "start", 1)),
        form=_value(found, "numFmt", "decimal"),
        text=_value(found, "lvlText"),
        is_legal=found.find(f"{_W}isLgl") is not None,
        restarts_below=_number_at(found, "lvlRestart", depth),
        style=_value(found, "pStyle"),
    )


def _shown(found: _List, counts: dict[int, int], depth: int, level: _Level) -> str:
    of = found.levels.get(depth)
    if of is None:
        return ""
    number = counts.setdefault(depth, of.start)
    return counted(number, "1" if level.is_legal else _FORMS.get(of.form, "1"))
