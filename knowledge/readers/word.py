"""Word documents (DOCX): headings by style, lists and their numbers, tables with their merged cells, check boxes,
charts and diagrams, notes after what they are noted at, headers and footers once at the end.

The archive has been checked (`knowledge.readers.office`). Pictures (but for what their author says), comments, hidden text,
text moved away, prompts of empty fields and tables of contents are not read; struck and deleted text is noticed.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docx
from docx.opc.exceptions import OpcError
from docx.styles.style import StyleFactory
from docx.table import Table
from docx.text.paragraph import Paragraph

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, Run, clean_text, counted, joined, one_line, table_text
from knowledge.readers.office import MALFORMED_ARCHIVE, as_plain, damaged, drawn, parsed_xml, picture_text, within

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
_DRAWN = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_OFF = ("0", "false", "off")
_LINK_FIELD = re.compile(r'\s*HYPERLINK\s+"([^"]+)"')
#: Half points above the line from which a text stands raised, not only better in place.
_RAISED = 4
#: Deleted or moved text, stops of tabulators, and the second form of what is there in a newer one.
_UNREAD = (
    f"{_W}del",
    f"{_W}moveFrom",
    f"{_W}tabs",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
)
#: Of a content control that only says what to type there.
_PROMPT = f"{_W}sdtPr/{_W}showingPlcHdr"
#: A cell that claims to cover more columns than this covers one.
_MOST_SPANNED = 100


def parse_docx(data: bytes, *, filename: str) -> ParsedDocument:
    try:
        document = docx.Document(io.BytesIO(as_plain(data)))
        outline = _Reader(document).read()
    except (OpcError, *MALFORMED_ARCHIVE) as error:
        raise damaged(filename, error) from error
    title = document.core_properties.title or ""
    return outline.finish(filename=filename, source_type=SourceType.DOCX, title=title)


class _Reader:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._outline = Outline()
        self._numbers = _Numbers(document)
        #: A style of no kind has no class of python-docx.
        typed = (style for style in document.styles.element.style_lst if style.type is not None)
        self._styles = {style.styleId: StyleFactory(style) for style in typed}
        self._said: dict[tuple[str, str], str] = {}
        self._notes = _footnotes(document)
        #: The notes of items, which stand after their list.
        self._beside: list[str] = []

    def read(self) -> Outline:
        outline = self._outline
        for part in _parts(self._document):
            if isinstance(part, Table):
                self._end_list()
                headers = len(part._tbl.findall(f"{_W}tr/{_W}trPr/{_W}tblHeader"))
                outline.add(table_text(self._table(part), headers=headers), kind="table")
            else:
                self._paragraph(part)
            self._beside += [self._notes.pop(number, "") for number in _note_numbers(part)]
        self._beside += self._notes.values()
        self._end_list()
        outline.add_around(self._around_pages())
        notes = len(list(self._document.element.body.iter(f"{_W}commentReference")))
        outline.name_comments([notes][:notes])
        return outline

    def _end_list(self) -> None:
        for note in self._beside:
            self._outline.add(note)
        self._beside.clear()
        self._outline.end_list()

    def _around_pages(self) -> Iterator[str]:
        """The paragraphs of the headers and footers that are shown."""
        has_even = self._document.settings.odd_and_even_pages_header_footer
        for section in self._document.sections:
            shown = [section.header, section.footer]
            if section.different_first_page_header_footer:
                shown += [section.first_page_header, section.first_page_footer]
            if has_even:
                shown += [section.even_page_header, section.even_page_footer]
            for around in shown:
                if not around.is_linked_to_previous:
                    yield from (self._text(Paragraph(node, around)) for node in around._element.iter(f"{_W}p"))

    def _paragraph(self, part: Any) -> None:
        outline, style = self._outline, part.style.name if part.style is not None else ""
        mark, depth = self._numbers.mark(part) or ("", 0)
        if _CONTENTS_STYLE.match(style):
            self._end_list()
            return
        text, level = self._text(part), _heading_level(part)
        if text and not level and (mark or _LIST_STYLE.match(style)):
            outline.item(one_line(text), depth=depth, mark=mark or "-")
            return
        self._end_list()
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
        for kind, said in drawn(part._p, lambda key: self._document.part.related_parts[key].blob):
            outline.add(said, kind=kind)

    def _text(self, part: Any) -> str:
        self._outline.struck += ["".join(one.itertext(f"{_W}delText")) for one in part._p.iter(f"{_W}del")]
        return clean_text(joined(self._runs(part), self._outline.struck)).strip()

    def _runs(self, part: Any) -> Iterator[Run]:
        """The paragraph's text, inserted text and text moved here included; that of boxes in it is read after it."""
        #: What the fields around a run say to do.
        fields: list[str] = []
        for node in part._p.iter(f"{_M}t", f"{_W}instrText", *_SIGNS):
            run, around = node.getparent(), list(node.iterancestors())
            if next(holder for holder in around if holder.tag == f"{_W}p") is not part._p:
                continue
            match node.get(f"{_W}fldCharType"):
                case "begin":
                    fields.append("")
                case "end":
                    fields[-1:] = []
            if node.tag == f"{_W}instrText":
                fields[-1:] = [instruction + (node.text or "") for instruction in fields[-1:]]
            elif not any(each.tag in _UNREAD or each.find(_PROMPT) is not None for each in around):
                is_hidden, *struck = (
                    self._look(run, name, part) not in _OFF for name in ("vanish", "strike", "dstrike")
                )
                text = "" if is_hidden else _SIGNS.get(node.tag, _SIGNS[f"{_W}t"])(node)
                yield Run(text, self._height(run, part), any(struck), _address(part, around, fields))

    def _look(self, run: Any, name: str, part: Any) -> str:
        """What a run says of a property: by itself, by its style, its paragraph's, or one that these are based on."""
        path = f"{_W}rPr/{_W}{name}"
        if (found := run.find(path)) is not None:
            return str(found.get(f"{_W}val", "on"))
        named = _value(run, "rPr/rStyle"), _value(part._p, "pPr/pStyle")
        return next(filter(None, (self._of_style(style, path) for style in named if style)), "off")

    def _of_style(self, name: str, path: str) -> str:
        """What a style or one that it is based on says, looked up once."""
        if (name, path) not in self._said:
            styles = (style.element for style in _based(self._styles.get(name)))
            said = (_value(style, path.replace(_W, ""), "on") for style in styles if style.find(path) is not None)
            self._said[name, path] = next(filter(None, said), "")
        return self._said[name, path]

    def _height(self, run: Any, part: Any) -> int:
        """1 for what stands above the line, which `base.raised` sets apart from a number, -1 below it."""
        place = self._look(run, "position", part)
        if run.find(f"{_W}footnoteReference") is not None or (place.isdecimal() and int(place) >= _RAISED):
            return 1
        return {"superscript": 1, "subscript": -1}.get(self._look(run, "vertAlign", part), 0)

    def _table(self, table: Any) -> list[list[str]]:
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
                    current[column] = self._cell_text(cell, table)
                span = max(1, _number_at(cell, "tcPr/gridSpan", 1))
                if span <= _MOST_SPANNED:
                    current |= dict.fromkeys(range(column + 1, column + span), "")
                column += span
            rows.append(_in_columns(current))
            above = current
        return rows

    def _cell_text(self, cell: Any, table: Any) -> str:
        """The paragraphs of a cell with their numbers, those of tables and boxes in it as well."""
        texts = []
        for node in cell.iter(f"{_W}p"):
            part = Paragraph(node, table)
            text, (mark, _depth) = self._text(part), self._numbers.mark(part) or ("", 0)
            texts.append(f"{mark} {text}".strip() if mark not in ("", "-") else text)
        return "\n".join(filter(None, texts))


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


def _held(element: Any, name: str) -> Iterator[Any]:
    """The children of a name in order, those in content controls as well."""
    return within(element, _W + name, [_W + holder for holder in _HOLDERS])


def _footnotes(document: Any) -> dict[str, str]:
    """The texts of foot- and endnotes by kind and number, as far as the document has any."""
    notes: dict[str, str] = {}
    for relation in document.part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if kind not in _NOTES or relation.is_external:
            continue
        for note in parsed_xml(relation.target_part.blob):
            lines = ("".join(line.itertext(f"{_W}t")) for line in note.iter(f"{_W}p"))
            text = clean_text("\n".join(lines)).strip()
            if text:
                notes[f"{kind}{note.get(f'{_W}id')}"] = text
    return notes


def _note_numbers(part: Any) -> Iterator[str]:
    for node in part._element.iter(f"{_W}footnoteReference", f"{_W}endnoteReference"):
        kind = node.tag.removeprefix(_W).removesuffix("Reference")
        yield f"{kind}s{node.get(f'{_W}id')}"


def _heading_level(part: Any) -> int:
    """By the paragraph itself, its style or one that this is based on."""
    level = _number_at(part._p, "pPr/outlineLvl", 9)
    for style in _based(part.style):
        if level < 9:
            break
        if match := _HEADING_STYLE.match(style.name or ""):
            return int(match[1])
        level = _number_at(style.element, "pPr/outlineLvl", 9)
    return level + 1 if level < 6 else 0


def _based(style: Any) -> Iterator[Any]:
    """A style and those that it is based on, one after the other."""
    for _step in range(_LONGEST_STYLES):
        if style is None:
            return
        yield style
        style = getattr(style, "base_style", None)  # styles of numbering have none


def _address(part: Any, around: Sequence[Any], fields: Sequence[str]) -> str:
    """Where a run leads, by the link or the field that it stands in."""
    for holder in around:
        if holder.tag == f"{_W}hyperlink":
            relation = part.part.rels.get(holder.get(f"{_R}id"))
            anchor = holder.get(f"{_W}anchor")
            if relation is not None and relation.is_external:
                return f"{relation.target_ref}#{anchor}" if anchor else str(relation.target_ref)
        if holder.tag == f"{_W}fldSimple":
            fields = [*fields, holder.get(f"{_W}instr", "")]
    return next((led[1] for field in fields if (led := _LINK_FIELD.match(field))), "")


def _symbol(node: Any) -> str:
    """A sign of Wingdings as the private character that `clean_text` knows; any other symbol is a picture."""
    code = re.fullmatch(r"(?:F0)?([0-9A-F]{2})", node.get(f"{_W}char", ""), re.IGNORECASE)
    return chr(0xF000 + int(code[1], 16)) if code and node.get(f"{_W}font") == "Wingdings" else ""


def _field(node: Any) -> str:
    """The box of a form's check box, or what is chosen of its list."""
    if (choice := node.find(f"{_W}ffData/{_W}ddList")) is not None:
        entries = [entry.get(f"{_W}val", "") for entry in choice.findall(f"{_W}listEntry")]
        return "".join(entries[_number_at(choice, "result", 0) :][:1])
    box = node.find(f"{_W}ffData/{_W}checkBox")
    if box is None:
        return ""
    states = [state for name in ("checked", "default") if (state := box.find(f"{_W}{name}")) is not None]
    return "☒" if states and states[0].get(f"{_W}val") not in _OFF else "☐"


#: What stands in a run, and what it says.
_SIGNS: dict[str, Callable[[Any], str]] = {
    f"{_W}t": lambda node: node.text or "",
    f"{_W}tab": lambda _node: " ",
    f"{_W}br": lambda _node: "\n",
    f"{_W}noBreakHyphen": lambda _node: "-",
    f"{_W}sym": _symbol,
    f"{_W}fldChar": _field,
    f"{_DRAWN}docPr": lambda node: f" {picture_text(node.get('descr', ''))} ",
}


def _in_columns(cells: dict[int, str]) -> list[str]:
    """Cells in the columns they stand in, as far as these are columns."""
    if max(cells, default=0) > len(cells) + _MOST_SPANNED:
        return list(cells.values())
    return [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]


def _value(element: Any, path: str, default: str = "") -> str:
    found = element.find("/".join(_W + name for name in path.split("/"))) if element is not None else None
    return default if found is None else found.get(f"{_W}val", default)


def _number_at(element: Any, path: str, default: int) -> int:
    value = _value(element, path)
    return int(value) if value.isdecimal() and len(value) < 10 else default


@dataclass(frozen=True, slots=True)
class _List:
    """`key` names what it counts on with; `starts` are the levels that it starts anew, and where."""

    key: str
    levels: Mapping[int, Any]
    starts: Mapping[int, int]

    def start(self, depth: int) -> int:
        return self.starts.get(depth, _number_at(self.levels[depth], "start", 1))


class _Numbers:
    """What Word counts by itself (« Article 4 », « b) »), by `numbering.xml` and the styles; asked once a paragraph, in
    order. Lists of one abstract numbering count on together; a list that overrides the start of a level starts it anew.
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
            for anew in found.starts:
                counts.pop(anew, None)
        counts[depth] = counts.get(depth, found.start(depth) - 1) + 1
        for deeper in [each for each in counts if each > depth]:
            if depth < _number_at(found.levels.get(deeper), "lvlRestart", deeper):
                del counts[deeper]
        if _value(level, "numFmt") == "bullet":
            return "-", depth
        is_legal = level.find(f"{_W}isLgl") is not None
        text = _value(level, "lvlText")
        return re.sub(
            r"%(\d)", lambda at: _shown(found, counts, int(at[1]) - 1, is_legal=is_legal), text
        ).strip(), depth

    def _place(self, paragraph: Any) -> tuple[str, int]:
        """The list and the level of a paragraph, by itself, its style or one that this is based on."""
        direct = paragraph._p.find(f"{_W}pPr/{_W}numPr")
        number = _value(direct, "numId")
        if number:
            return number, _number_at(direct, "ilvl", 0)
        for style in _based(paragraph.style):
            named = style.element.find(f"{_W}pPr/{_W}numPr")
            if number := _value(named, "numId"):
                levels = self._lists[number].levels if number in self._lists else {}
                of_style = (depth for depth, level in levels.items() if _value(level, "pStyle") == style.style_id)
                return number, _number_at(direct, "ilvl", next(of_style, _number_at(named, "ilvl", 0)))
        return "", 0


def _list(number: Any, abstract: Any) -> _List:
    levels = {int(level.get(f"{_W}ilvl", 0)): level for level in abstract.findall(f"{_W}lvl")}
    starts = {}
    for override in number.findall(f"{_W}lvlOverride"):
        depth = int(override.get(f"{_W}ilvl", 0))
        if (own := override.find(f"{_W}lvl")) is not None:
            levels[depth] = own
        if override.find(f"{_W}startOverride") is not None and depth in levels:
            starts[depth] = _number_at(override, "startOverride", 1)
    return _List(abstract.get(f"{_W}abstractNumId", ""), levels, starts)


def _shown(found: _List, counts: dict[int, int], depth: int, *, is_legal: bool) -> str:
    if depth not in found.levels:
        return ""
    number = counts.setdefault(depth, found.start(depth))
    form = _value(found.levels[depth], "numFmt", "decimal")
    return counted(number, "1" if is_legal else _FORMS.get(form, "1"))
