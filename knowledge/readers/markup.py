"""HTML tags to blocks of light Markdown under their headings: paragraphs, lists, tables, code, definitions.

Nothing is fetched, and what comes out holds no HTML. Trees are cut at a depth that no page has, before nested tags end
the walk with the interpreter's own limit: a part that is read by itself knows how deep it stands.
"""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice, takewhile

from bs4 import BeautifulSoup, Tag
from bs4.element import Comment, NavigableString, PageElement
from django.utils.translation import gettext as _

from knowledge.readers.base import (
    MAX_FILLED_CELLS,
    MAX_HEADER_ROWS,
    Outline,
    asks,
    clean_text,
    counted,
    fenced,
    one_line,
    outline_text,
    raised,
    table_text,
    unreadable,
)

BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption "
    "figure form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu ol p pre section "
    "summary table tbody thead tfoot tr td th ul".split()
)
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
#: The name of the tag that stands where something was taken out.
TAKEN_OUT = "taken-out"
_READ = BLOCKS | {TAKEN_OUT}
_LISTS = ("ul", "ol", "menu")
_CELLS = ("td", "th", "li", "dt", "dd", "summary")
_ROWS = ("tbody", "thead", "tfoot", "tr")
#: A tag deeper than this in its tree is text: pages of real sites end at about 40.
_MAX_TREE_DEPTH = 60
#: Openings and ends of tags; a page of more takes longer than ten seconds.
_MOST_TAGS = 400_000
_STRUCK = frozenset("s strike del".split())
_STRUCK_STYLE = re.compile(r"text-decoration(?:-line)?\s*:[^;]*\bline-through\b", re.IGNORECASE)
_RAISED_STYLE = re.compile(r"vertical-align\s*:\s*super\b", re.IGNORECASE)
#: How `<ol type>` counts, and how style sheets call it; a browser shows any other as numbers.
_COUNTERS = ("a", "A", "i", "I")
_CSS_COUNTER = re.compile(r"list-style(?:-type)?\s*:[^;]*\b(lower|upper)-(alpha|latin|roman)\b", re.IGNORECASE)
#: An address of a scheme that is followed, or one beside the page.
_FOLLOWABLE = re.compile(r"(?:https?://|mailto:|tel:|(?![#?]|[a-zA-Z][\w+.-]*:))[^\s()<>]{1,500}$")
#: As `Chunk.anchor` holds it.
LONGEST_ANCHOR = 200
#: A cell that claims to cover more columns or rows than this covers as many.
_MOST_SPANNED = 100


def tree_of(text: str) -> BeautifulSoup:
    if (count := text.count("<")) > _MOST_TAGS:
        raise unreadable(
            f"{count} tags", _("Cette page a trop de balises : elle est refusée. Divisez-la en plusieurs.")
        )
    # A declaration of encoding inside decoded text makes the parser decode it a second time.
    soup = BeautifulSoup(re.sub(r"^\s*<\?xml[^>]*\?>", "", clean_text(text)), "lxml")
    pending: list[tuple[Tag, int]] = [(soup, 0)]
    while pending:
        tag, depth = pending.pop()
        inner = [child for child in tag.children if isinstance(child, Tag)]
        if inner and depth >= _MAX_TREE_DEPTH and tag.name not in _ROWS:
            text = tag.get_text(" ")
            tag.clear()
            tag.append(text)
            # What is read by its parts (rows, items) would have none.
            tag.name = tag.name if tag.name in _CELLS else "div"
        else:
            pending.extend((child, depth + 1) for child in inner)
    return soup


def take_out_marks(soup: Tag) -> list[str]:
    """Set raised texts apart from what they stand behind, and take out struck texts, which are returned."""
    struck: list[str] = []
    for tag in remaining_tags(soup):
        style = attribute(tag, "style")
        if tag.name in _STRUCK or (style and _STRUCK_STYLE.search(style)):
            struck.append(tag.get_text(" "))
            tag.decompose()
        elif tag.name == "sup" or (style and _RAISED_STYLE.search(style)):
            before = tag.find_previous(string=True) if tag.previous_sibling is not None else None
            tag.replace_with(NavigableString(raised(str(before or ""), tag.get_text())))
    return struck


def remaining_tags(tag: Tag) -> Iterator[Tag]:
    """The tags within `tag` in order, but for those decomposed on the way, which a tag's own property is slow to tell."""
    return (node for node in list(tag.descendants) if isinstance(node, Tag) and "_decomposed" not in vars(node))


def tags_named(tag: Tag, names: Container[str]) -> list[Tag]:
    """The tags of these names within `tag`, in order; three times as fast as `find_all`."""
    return [node for node in remaining_tags(tag) if node.name in names]


def attribute(tag: Tag, name: str) -> str:
    value = tag.get(name)
    return " ".join(value) if isinstance(value, list) else str(value or "")


def plain_text(tag: Tag) -> str:
    """What a heading or a label says, without any mark."""
    pieces = []
    for node in tag.descendants:
        if isinstance(node, NavigableString) and not isinstance(node, Comment):
            pieces.append(str(node))
        elif isinstance(node, Tag) and (node.name in BLOCKS or node.name == "br"):
            pieces.append(" ")
    return one_line("".join(pieces))


def anchor_of(heading: Tag) -> str:
    """The identifier by which a page opens at a heading: its own, that of something in it, or of what begins with it."""
    if found := attribute(heading, "id"):
        return _bounded(found)
    for tag in tags_named(heading, ("a", "span", "strong"))[:5]:
        if found := attribute(tag, "id") or attribute(tag, "name"):
            return _bounded(found)
    before = next((node for node in heading.previous_siblings if str(node).strip()), None)
    if isinstance(before, Tag) and not before.get_text(strip=True):
        return _bounded(attribute(before, "id") or attribute(before, "name"))
    return _bounded(attribute(heading.parent, "id")) if heading.parent is not None and before is None else ""


def _bounded(anchor: str) -> str:
    return anchor if len(anchor) <= LONGEST_ANCHOR and not any(map(str.isspace, anchor)) else ""


class MarkupReader:
    """Walks a tree; runs of inline content between block tags are paragraphs."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        #: Which tags hold blocks, as far as they were looked at.
        self._known: dict[int, bool] = {}

    def read(self, node: Tag) -> None:
        run: list[PageElement] = []
        for child in list(node.children):
            if isinstance(child, Tag) and self._holds_blocks(child):
                self._paragraph(run)
                run = []
                self._block(child)
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
        self._outline.add(inline_text(run))

    def _block(self, tag: Tag) -> None:
        match tag.name:
            case name if name in HEADINGS:
                self._outline.heading(int(name[1]), plain_text(tag), anchor=anchor_of(tag))
            case "ul" | "ol" | "menu":
                self._outline.add("\n".join(_list_lines(tag)), kind="list")
            case "table":
                self._table(tag)
            case "pre":
                lines = tag.get_text().strip("\n").rstrip()
                self._outline.add(fenced(lines) if lines else "", kind="code")
            case "details":
                self._details(tag)
            case "dl":
                self._definitions(tag)
            case "taken-out":
                self._outline.leave_out()
            case "hr":
                pass
            case _:
                self.read(tag)

    def _table(self, tag: Tag) -> None:
        rows = [
            [cell for cell in row.children if isinstance(cell, Tag) and cell.name in ("td", "th")]
            for row in _nearest(tag, ("tr",), closed=("table",))
        ]
        rows = [row for row in rows if row]
        caption = next((c for c in tag.children if isinstance(c, Tag) and c.name == "caption"), None)
        if caption is not None and (text := one_line(_inline(caption))):
            self._outline.add(_wrap(text.replace("**", ""), "**"))
        if _is_for_layout(tag) or max(map(len, rows), default=0) < 2:
            for row in rows:
                for cell in row:
                    self.read(cell)
        else:
            texts, headers = _grid(rows, _cell_text)
            # Of one row, its cells say whether more belong to it.
            self._outline.add(table_text(texts, headers=headers if headers > 1 else 0), kind="table")

    def _details(self, tag: Tag) -> None:
        summary = tag.find("summary", recursive=False)
        question = ""
        if isinstance(summary, Tag):
            question = plain_text(summary)
            summary.decompose()
        self._question(question, _fragment(tag))

    def _definitions(self, tag: Tag) -> None:
        """Terms with what is said of them; anything else in the list stands where it was."""
        terms: list[Tag] = []
        answers: list[str] = []
        for group in tag.find_all("div"):
            if group.find(["dt", "dd"]) and group.find_parent("dl") is tag and group.find_parent(["dt", "dd"]) is None:
                group.unwrap()
        for entry in [child for child in tag.children if isinstance(child, Tag)]:
            if entry.name == "dd":
                answers.append(_fragment(entry))
                continue
            if answers or entry.name != "dt":
                self._definition(terms, answers)
                terms, answers = [], []
            if entry.name == "dt":
                terms.append(entry)
            else:
                self._block(entry)
        self._definition(terms, answers)

    def _definition(self, terms: list[Tag], answers: list[str]) -> None:
        labels = [label for term in terms if (label := plain_text(term))]
        anchor = next((attribute(term, "id") for term in terms if term.get("id")), "")
        self._question(" / ".join(labels), "\n\n".join(filter(None, answers)), anchor=anchor)

    def _question(self, label: str, text: str, *, anchor: str = "") -> None:
        """A label that asks with its answer, or any other with what stands under it."""
        if label and text and asks(label):
            self._outline.add(text, kind="qa", question=label, anchor=anchor)
        else:
            title = _wrap(label, "**")
            self._outline.add(f"{title}\n\n{text}".strip() if label else text, anchor=anchor)


def _nearest(tag: Tag, names: Container[str], closed: Container[str]) -> list[Tag]:
    """The tags of these names within `tag`, in order, but for those within another `closed` one."""
    found: list[Tag] = []
    pending = list(tag.children)[::-1]
    while pending:
        node = pending.pop()
        if not isinstance(node, Tag):
            continue
        if node.name in names:
            found.append(node)
        if node.name not in closed:
            pending.extend(list(node.children)[::-1])
    return found


def _is_for_layout(table: Tag) -> bool:
    """Whether cells only place things on the page: other tables, or code of several lines."""
    if attribute(table, "role") in ("presentation", "none") or tags_named(table, ("table",)):
        return True
    return any("\n" in block.get_text().strip() for block in tags_named(table, ("pre",)))


def _header_count(rows: Sequence[Sequence[Tag]]) -> int:
    """Count the header rows at the top: those of `thead`, else those of several cells that are all `th`."""
    groups = (row[0].find_parent(["thead", "table"]) for row in rows)
    head = [group for group in groups if group is not None and group.name == "thead"]
    of_headings = takewhile(lambda row: all(cell.name == "th" for cell in row) and len(row) > 1, rows)
    return len(head) or len(list(of_headings))


def _grid(rows: Sequence[Sequence[Tag]], text_of: Callable[[Tag], str]) -> tuple[list[list[str]], int]:
    """Return the cells' texts and the number of header rows. Merged cells repeat downwards, in headers also across."""
    covered = sum(_span(c, "rowspan") * _span(c, "colspan") for row in rows for c in row)
    spans = covered <= MAX_FILLED_CELLS
    headers = min(_header_count(rows), len(rows) - 1, MAX_HEADER_ROWS)
    filled: list[list[str]] = []
    held: dict[int, tuple[str, int]] = {}
    for number, row in enumerate(rows):
        line: list[str] = []
        for cell in row:
            _take_held(line, held)
            text = text_of(cell)
            below = _span(cell, "rowspan") - 1 if spans else 0
            for column in range(_span(cell, "colspan") if spans else 1):
                said = text if number < headers or not column else ""
                if below:
                    held[len(line)] = (said, below)
                line.append(said)
        _take_held(line, held)
        filled.append(line)
    return filled, headers


def _take_held(line: list[str], held: dict[int, tuple[str, int]]) -> None:
    """Append the texts of merged cells that reach down to this place from rows above."""
    while len(line) in held:
        text, rows = held.pop(len(line))
        if rows > 1:
            held[len(line)] = (text, rows - 1)
        line.append(text)


def _span(cell: Tag, name: str) -> int:
    value = attribute(cell, name).strip()
    if name == "rowspan" and value == "0" and cell.parent is not None:
        value = str(1 + sum(isinstance(row, Tag) for row in islice(cell.parent.next_siblings, 2 * _MOST_SPANNED)))
    return min(max(int(value), 1), _MOST_SPANNED) if re.fullmatch(r"[0-9]{1,9}", value) else 1


def _cell_text(cell: Tag) -> str:
    for block in tags_named(cell, ("pre",)):
        block.name = "code"
    text = _fragment(cell)
    return one_line(re.sub(r"\n+(?:- )?", " ; " if "\n- " in text else " ", text))


def _fragment(tag: Tag) -> str:
    outline = Outline()
    MarkupReader(outline).read(tag)
    return outline_text(outline)


def _inline(node: PageElement) -> str:
    if isinstance(node, Comment):
        return ""
    if isinstance(node, NavigableString):
        return re.sub(r"[ \t\n]+", " ", str(node))
    if not isinstance(node, Tag):
        return ""
    if node.name == "br":
        return "\n"
    text = "".join(_inline(child) for child in node.children)
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
    """A label with where it leads: as a link where a page can open it, else in brackets (a telephone, a file beside)."""
    label = text.strip()
    address = address.replace("(", "%28").replace(")", "%29")
    is_same = label.rstrip("/") in (address.rstrip("/"), re.sub(r"^\w+:(?://)?", "", address).rstrip("/"))
    if not label or not _FOLLOWABLE.match(address) or is_same or "[" in label or "\n" in label:
        return text
    if re.match(r"https?:|mailto:", address):
        return text.replace(label, f"[{label}]({address})", 1)
    plain = address.removeprefix("tel:")
    is_said = label in plain or re.sub(r"\W|_", "", plain)[-8:] in re.sub(r"\W|_", "", label)
    return text if is_said else text.replace(label, f"{label} ({plain})", 1)


def inline_text(run: Sequence[PageElement]) -> str:
    return _tidy("".join(map(_inline, run)))


def _tidy(text: str) -> str:
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _list_lines(tag: Tag, indent: str = "") -> Iterator[str]:
    """The items of a list, each with the lists in it below it; text between items is an item as well."""
    marks = _marks(tag)
    for child in list(tag.children):
        if isinstance(child, Tag) and child.name in _LISTS:
            yield from _list_lines(child, indent)
        elif isinstance(child, Tag) or str(child).strip():
            yield from _item_lines(child, marks.get(id(child), "- "), indent)


def _marks(tag: Tag) -> dict[int, str]:
    """The marks of an ordered list's items as a browser counts; what Markdown would count otherwise has a bullet."""
    items = [child for child in tag.children if isinstance(child, Tag) and child.name not in _LISTS]
    if tag.name != "ol":
        return {}
    step = -1 if tag.has_attr("reversed") else 1
    number = _whole(attribute(tag, "start"), len(items) if step < 0 else 1)
    numbers = []
    for item in items:
        number = _whole(attribute(item, "value"), number)
        numbers.append(number)
        number += step
    kinds = [_counter(item) or _counter(tag) for item in items]
    written = [counted(n, k if k in _COUNTERS else "1") for k, n in zip(kinds, numbers, strict=True)]
    is_plain = written == [str(numbers[0] + place) for place in range(len(numbers))] and numbers[:1] >= [0]
    return {id(item): f"{mark}. " if is_plain else f"- {mark}. " for item, mark in zip(items, written, strict=True)}


def _counter(tag: Tag) -> str:
    """How a list or an item counts, where it says so."""
    if found := _CSS_COUNTER.search(attribute(tag, "style")):
        kind = "i" if found[2].lower() == "roman" else "a"
        return kind.upper() if found[1].lower() == "upper" else kind
    return attribute(tag, "type")


def _whole(value: str, default: int) -> int:
    found = re.match(r"\s*([-+]?\d{1,9})", value)
    return int(found[1]) if found else default


def _item_lines(item: PageElement, mark: str, indent: str) -> Iterator[str]:
    if not isinstance(item, Tag):
        text = "" if isinstance(item, Comment) else _tidy(_inline(item))
        yield from [f"{indent}{mark}{text}"] if text else []
        return
    margin = indent + " " * len(mark)
    nested: list[str] = []
    for child in _nearest(item, _LISTS, closed=(*_LISTS, "table", "dl")):
        if not _says_more_after(child, item):
            nested.extend(_list_lines(child, margin))
            child.extract()
    if text := _fragment(item):
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
