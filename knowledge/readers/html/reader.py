"""A tree of tags to blocks of light Markdown under their headings."""

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from bs4 import Tag
from bs4.element import Comment, NavigableString, PageElement

from knowledge.readers.base import Outline, fenced, one_line, outline_text, seems_to_ask, table_text
from knowledge.readers.html.anchors import anchor_of
from knowledge.readers.html.surroundings import TAKEN_OUT
from knowledge.readers.html.tables import grid, is_for_layout, is_single, rows_of
from knowledge.readers.html.tree import BLOCKS, HEADINGS, attribute, nearest, tags_named

#: Deeper than this, a tree is not a page: its text is taken as it comes.
_MAX_DEPTH = 60
_READ = BLOCKS | {TAKEN_OUT}
_LISTS = ("ul", "ol", "menu")
#: What DocBook, Sphinx, Asciidoctor, GitBook and Bootstrap call a box of advice beside the text.
_BOXES = frozenset("note tip warning caution important admonition admonitionblock callout hint alert".split())
#: How far above its title such a box begins.
_BOX_DEPTH = 4
#: Whose class is that of the page.
_ROOTS = ("main", "article", "body", "html")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|brush:)-?\s?([A-Za-z][\w+#-]{0,20})")
#: Names that tools give to code without a language.
_NO_LANGUAGE = frozenset(["default", "none", "text", "notranslate", "plaintext", "source"])


class HtmlReader:
    """Walks a tree; runs of inline content between block tags are paragraphs.

    The depth goes along into the parts that are read as documents of their own (answers, items, cells), or tags nested
    in one another would end the walk with the interpreter's own limit.
    """

    def __init__(self, outline: Outline, known: dict[int, bool] | None = None) -> None:
        self._outline = outline
        #: Which tags hold blocks, as far as they were looked at.
        self._known = {} if known is None else known

    def read(self, node: Tag, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            self._outline.add(one_line(node.get_text(" ")))
            return
        run: list[PageElement] = []
        for child in list(node.children):
            if isinstance(child, Tag) and self._holds_blocks(child):
                self._paragraph(run)
                run = []
                self._block(child, depth + 1)
            else:
                run.append(child)
        self._paragraph(run)

    def _holds_blocks(self, tag: Tag) -> bool:
        known = self._known.get(id(tag))
        if known is None:
            inner = (child for child in tag.children if isinstance(child, Tag))
            known = tag.name in _READ or any(map(self._holds_blocks, inner))
            self._known[id(tag)] = known
        return known

    def _paragraph(self, run: list[PageElement]) -> None:
        text = "".join(_inline(node) for node in run)
        self._outline.add(_tidy(text))

    def _block(self, tag: Tag, depth: int) -> None:
        match tag.name:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6" if _titles_a_box(tag):
                self._outline.add(_wrap(plain_text(tag), "**"), anchor=anchor_of(tag))
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._outline.heading(int(tag.name[1]), plain_text(tag), anchor=anchor_of(tag))
            case "ul" | "ol" | "menu":
                self._outline.add("\n".join(_list_lines(tag, depth=depth)), kind="list")
            case "table":
                self._table(tag, depth)
            case "pre":
                self._outline.add(_code(tag), kind="code")
            case "details":
                self._details(tag, depth)
            case "dl":
                self._definitions(tag, depth)
            case "taken-out":
                self._outline.leave_out()
            case "hr":
                pass
            case _:
                self.read(tag, depth)

    def _table(self, tag: Tag, depth: int) -> None:
        rows = rows_of(tag)
        caption = next((c for c in tag.children if isinstance(c, Tag) and c.name == "caption"), None)
        if isinstance(caption, Tag) and (text := one_line(_inline(caption))):
            self._outline.add(_wrap(text.replace("**", ""), "**"))
        if is_for_layout(tag, rows):
            for row in rows:
                for cell in row:
                    self.read(cell, depth)
        elif is_single(rows):
            self._outline.add("\n".join(_single_column(rows, depth)), kind="list")
        else:
            texts = grid(rows, lambda cell: _cell_text(cell, depth))
            self._outline.add(table_text(texts), kind="table")

    def _details(self, tag: Tag, depth: int) -> None:
        summary = tag.find("summary", recursive=False)
        question = ""
        if isinstance(summary, Tag):
            question = plain_text(summary)
            summary.decompose()
        self._question(question, _fragment(tag, depth))

    def _definitions(self, tag: Tag, depth: int) -> None:
        """Terms with what is said of them; anything else in the list stands where it was."""
        terms: list[Tag] = []
        answers: list[str] = []
        for entry in _entries(tag):
            if entry.name == "dd":
                answers.append(_fragment(entry, depth))
                continue
            if answers or entry.name != "dt":
                self._definition(terms, answers)
                terms, answers = [], []
            if entry.name == "dt":
                terms.append(entry)
            else:
                self._block(entry, depth)
        self._definition(terms, answers)

    def _definition(self, terms: list[Tag], answers: list[str]) -> None:
        labels = [label for term in terms if (label := plain_text(term))]
        anchor = next((attribute(term, "id") for term in terms if term.get("id")), "")
        self._question(" / ".join(labels), "\n\n".join(filter(None, answers)), anchor=anchor)

    def _question(self, label: str, text: str, *, anchor: str = "") -> None:
        """A label that asks with its answer, or any other with what stands under it."""
        if label and text and seems_to_ask(label):
            self._outline.add(text, kind="qa", question=label, anchor=anchor)
        else:
            title = _wrap(label, "**")
            self._outline.add(f"{title}\n\n{text}".strip() if label else text, anchor=anchor)


def _titles_a_box(heading: Tag) -> bool:
    """Whether what follows the box stands under the heading before it again: « Note » is no section."""
    around = takewhile(lambda tag: tag.name not in _ROOTS, islice(heading.parents, _BOX_DEPTH))
    return heading.name != "h1" and any(
        not _BOXES.isdisjoint(attribute(tag, "class").lower().split()) and len(tags_named(tag, HEADINGS)) == 1
        for tag in around
    )


def plain_text(tag: Tag) -> str:
    """What a heading or a label says, without any mark."""
    pieces = []
    for node in tag.descendants:
        if isinstance(node, NavigableString) and not isinstance(node, Comment):
            pieces.append(str(node))
        elif isinstance(node, Tag) and (node.name in BLOCKS or node.name == "br"):
            pieces.append(" ")
    return one_line("".join(pieces))


def _entries(tag: Tag) -> Iterator[Tag]:
    """The terms and definitions of a list, groups opened, and what is neither."""
    pending = [child for child in tag.children if isinstance(child, Tag)][::-1]
    while pending:
        child = pending.pop()
        is_group = child.name == "div" and nearest(child, ("dt", "dd"), closed=("dl",))
        if is_group:
            pending += [inner for inner in child.children if isinstance(inner, Tag)][::-1]
        else:
            yield child


def _code(tag: Tag) -> str:
    lines = tag.get_text().strip("\n").rstrip()
    return fenced(lines, _language(tag)) if lines else ""


def _language(tag: Tag) -> str:
    """The language that the classes of the code, or of what is around it, name."""
    inner = next(iter(tags_named(tag, ("code",))), None)
    around = [tag.parent, tag.parent.parent if tag.parent else None]
    for node in (tag, inner, *around):
        if isinstance(node, Tag):
            found = _LANGUAGE.search(attribute(node, "class")) or _LANGUAGE.search(
                f"lang-{attribute(node, 'data-lang')}"
            )
            if found and found[1].lower() not in _NO_LANGUAGE:
                return found[1].lower()
    return ""


def _single_column(rows: list[list[Tag]], depth: int) -> Iterator[str]:
    """A table of one column as a list, its heading above: what stands in one cell stays one item."""
    yield f"**{plain_text(rows[0][0])}**\n" if plain_text(rows[0][0]) else ""
    for row in rows[1:]:
        for cell in row:
            if text := _fragment(cell, depth):
                yield "- " + re.sub(r"\n+", "\n  ", text)


def _fragment(tag: Tag, depth: int) -> str:
    outline = Outline()
    HtmlReader(outline).read(tag, depth + 1)
    return outline_text(outline)


def _inline(node: PageElement, depth: int = 0) -> str:
    if isinstance(node, Comment):
        return ""
    if isinstance(node, NavigableString):
        return re.sub(r"[ \t\n]+", " ", str(node))
    if not isinstance(node, Tag):
        return ""
    if node.name == "br":
        return "\n"
    if depth > _MAX_DEPTH:
        return node.get_text(" ")
    text = "".join(_inline(child, depth + 1) for child in node.children)
    match node.name:
        case "strong" | "b":
            return _wrap(text, "**")
        case "code" | "kbd" | "samp":
            return _wrap(text, "`")
        case "pre":
            return _wrap(one_line(text), "`")
        case "a":
            return _link(text, str(node.get("href") or ""))
        case name if name in BLOCKS:
            return f" {text} "
    return text


def _wrap(text: str, mark: str) -> str:
    """Emphasis marks hug the words; inside other marks or across lines they would not be valid."""
    inner = text.strip()
    if not inner or "\n" in inner or mark in inner:
        return text
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{lead}{mark}{inner}{mark}{tail}"


def _link(text: str, address: str) -> str:
    label = text.strip()
    followable = re.match(r"(?:https?://|mailto:)[^\s()<>]+$", address)
    if not label or not followable or label in address or "[" in label or "\n" in label:
        return text
    return text.replace(label, f"[{label}]({address})", 1)


def _list_lines(tag: Tag, indent: str = "", *, depth: int) -> Iterator[str]:
    """The items of a list, each with the lists in it below it; text between items is an item as well."""
    number = 0
    for child in list(tag.children):
        if isinstance(child, Tag) and child.name in _LISTS and depth < _MAX_DEPTH:
            yield from _list_lines(child, indent, depth=depth + 1)
        elif isinstance(child, Tag) or str(child).strip():
            lines = list(_item_lines(child, f"{number + 1}. " if tag.name == "ol" else "- ", indent, depth))
            number += bool(lines)
            yield from lines


def _item_lines(item: PageElement, mark: str, indent: str, depth: int) -> Iterator[str]:
    if not isinstance(item, Tag):
        text = "" if isinstance(item, Comment) else _tidy(_inline(item))
        yield from [f"{indent}{mark}{text}"] if text else []
        return
    margin = indent + " " * len(mark)
    nested: list[str] = []
    parts: list[str] = []
    for child in nearest(item, _LISTS, closed=(*_LISTS, "table", "dl")) if depth < _MAX_DEPTH else []:
        if _says_more_after(child, item):
            continue
        nested.extend(_list_lines(child, margin, depth=depth + 1))
        child.extract()
    parts.append(_fragment(item, depth))
    text = "\n".join(filter(None, parts))
    if text:
        yield f"{indent}{mark}" + _indented(text, margin)
    elif nested:
        # An item of nothing but a list: its items stand in its place.
        nested = [line.removeprefix(" " * len(mark)) for line in nested]
    yield from nested


def _says_more_after(child: Tag, item: Tag) -> bool:
    """Whether an item goes on after a list in it: the list is then read in its place."""
    node: Tag | None = child
    while node is not None and node is not item:
        if any(
            (sibling.get_text() if isinstance(sibling, Tag) else str(sibling)).strip()
            for sibling in node.next_siblings
            if not (isinstance(sibling, Tag) and sibling.name in _LISTS)
        ):
            return True
        node = node.parent
    return False


def _indented(text: str, margin: str) -> str:
    """The lines of an item below its first; empty ones go, but for those of code."""
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_code ^= line.lstrip().startswith("```")
        if line.strip() or is_code:
            lines.append(f"{margin}{line}" if lines and line.strip() else line)
    return "\n".join(lines)


def _cell_text(cell: Tag, depth: int) -> str:
    for block in tags_named(cell, ("pre",)):
        block.name = "code"
    text = _fragment(cell, depth)
    return one_line(re.sub(r"\n+(?:- )?", " ; " if "\n- " in text else " ", text))


def _tidy(text: str) -> str:
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
