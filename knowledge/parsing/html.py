"""HTML pages and fragments to light Markdown.

Only what a reader sees as content is kept: scripts, styles, navigation, footers and form fields go. Questions that the
markup declares (`<details>`, `<dl>`, FAQPage data) become questions and answers. Nothing is fetched, no entity is
resolved from outside, and the output holds no HTML.
"""

import json
import re
from collections import deque
from collections.abc import Container, Iterator
from itertools import islice

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString, PageElement

from knowledge.models import SourceType
from knowledge.parsing.base import (
    Outline,
    ParsedDocument,
    bare_text,
    clean_text,
    one_line,
    outline_text,
    seems_to_ask,
    table_text,
)
from knowledge.parsing.text import decode_text

_DROPPED = [
    "script", "style", "nav", "footer", "noscript", "template", "iframe", "svg", "math", "object",
    "select", "input", "textarea", "canvas", "audio", "video", "head",
]  # fmt: skip
_BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption "
    "figure form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu ol p pre section "
    "summary table tbody thead tfoot tr td th ul".split()
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_SURROUNDING_ROLES = frozenset(
    ["navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog"]
)
#: Words of identifiers and classes, as sites and their consent tools use them.
_SURROUNDING_NAMES = re.compile(
    r"(?:^|[-_\s])(?:cookies?|consent|gdpr|rgpd|tarteaucitron\w*|didomi\w*|onetrust\w*|axeptio\w*|breadcrumbs?|"
    r"fil-?d?-?ariane|skip-?links?|skip-to-content|share-(?:buttons?|links?)|social-share)(?:$|[-_\s])",
    re.IGNORECASE,
)
#: A longer text about cookies is a page about cookies.
_LONGEST_SURROUNDING = 3_000
_MOST_SURROUNDING_NODES = 500
#: Deeper than this, a tree is not a page: its text is taken as it comes.
_MAX_DEPTH = 60
#: A tag deeper than this in its tree is text: pages of real sites end at about 40.
_MAX_TREE_DEPTH = 100
_LISTS = ("ul", "ol")
_CELLS = ("td", "th", "li", "dt", "dd", "summary")
_ROWS = ("tbody", "thead", "tfoot", "tr")


def parse_html(data: bytes, *, filename: str) -> ParsedDocument:
    soup = _soup(_decode(data, filename=filename))
    title = one_line(soup.title.get_text()) if soup.title else ""
    outline = Outline()
    declared = list(_declared_questions(soup))
    _flatten(soup)
    _drop_unread(soup)
    whole = soup.get_text(" ", strip=True)
    _drop_surroundings(soup)
    if not soup.get_text(strip=True):  # a page of nothing else
        outline.add(one_line(whole))
    _HtmlReader(outline).read(soup.find("main") or soup.body or soup)
    for question, answer in declared:
        outline.add_apart(answer, question=question)
    return outline.finish(filename=filename, source_type=SourceType.HTML, title=title)


def html_fragment_text(fragment: str) -> str:
    """A fragment of HTML (an answer, a table cell) as light Markdown."""
    soup = _soup(fragment)
    _flatten(soup)
    _drop_unread(soup)
    outline = Outline()
    _HtmlReader(outline).read(soup)
    return outline_text(outline)


def _soup(text: str) -> BeautifulSoup:
    # A declaration of encoding inside decoded text makes the parser decode it a second time.
    return BeautifulSoup(re.sub(r"^\s*<\?xml[^>]*\?>", "", clean_text(text)), "lxml")


def _decode(data: bytes, *, filename: str) -> str:
    declared = _CHARSET.search(data[:4096])
    if declared and b"\0" not in data[:4096]:
        try:
            return data.decode(declared[1].decode("ascii"))
        except (LookupError, UnicodeError):
            pass
    return decode_text(data, filename=filename)


def _flatten(soup: BeautifulSoup) -> None:
    """Leave the text alone of what is nested deeper than a page is: what is read of a tag looks at all that it holds."""
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


def _drop_unread(soup: BeautifulSoup) -> None:
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    for tag in soup.find_all("button"):
        # Accordions put their title in a button inside a heading; other buttons are controls.
        if tag.find_parent(["h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"]):
            tag.unwrap()
        else:
            tag.decompose()
    for comment in soup.find_all(string=lambda string: isinstance(string, Comment)):
        comment.extract()


def _drop_surroundings(soup: BeautifulSoup) -> None:
    """Take out what stands around the content of a page: menus, banners, consent, breadcrumbs, buttons to share.

    What holds the page's own title or article is content, whatever it is called. Hidden parts stay: accordions hide answers.
    """
    for tag in soup.find_all(_is_surrounding):
        if not tag.decomposed and tag.find(["h1", "main", "article"]) is None:
            tag.decompose()


def _is_surrounding(tag: Tag) -> bool:
    if tag.name in ("html", "body", "main", "article", "h1"):
        return False
    if str(tag.get("role") or "").lower() in _SURROUNDING_ROLES:
        return True
    if tag.name in ("header", "aside"):
        return tag.find_parent(["main", "article", "section"]) is None
    names = " ".join([str(tag.get("id") or ""), *(tag.get_attribute_list("class") or ())])
    return bool(_SURROUNDING_NAMES.search(names)) and _is_small(tag)


def _is_small(tag: Tag) -> bool:
    """Few nodes with little text; looked at no farther than that, as tags may be nested without end."""
    inner = list(islice(tag.descendants, _MOST_SURROUNDING_NODES + 1))
    length = sum(len(node) for node in inner if isinstance(node, NavigableString))
    return len(inner) <= _MOST_SURROUNDING_NODES and length < _LONGEST_SURROUNDING


def _declared_questions(soup: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """Questions and answers of schema.org FAQPage data (JSON-LD)."""
    for script in soup.find_all("script", type="application/ld+json"):
        try:
            data = json.loads(script.get_text())
        except (ValueError, RecursionError):
            continue
        for entity in _walk_json(data):
            answer = entity.get("acceptedAnswer")
            if isinstance(answer, list) and answer:
                answer = answer[0]
            text = answer.get("text") if isinstance(answer, dict) else None
            question = entity.get("name")
            if isinstance(question, str) and isinstance(text, str):
                yield html_fragment_text(question), html_fragment_text(text)


def _walk_json(data: object) -> Iterator[dict[str, object]]:
    pending = deque([data])
    while pending:
        value = pending.popleft()
        if isinstance(value, dict):
            if value.get("@type") in ("Question", ["Question"]):
                yield value
            else:
                pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


class _HtmlReader:
    """Walks a tree; runs of inline content between block tags are paragraphs.

    The depth goes along into the parts that are read as documents of their own (answers, items, cells), or tags nested
    in one another would end the walk with the interpreter's own limit.
    """

    def __init__(self, outline: Outline) -> None:
        self._outline = outline

    def read(self, node: Tag, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            self._outline.add(one_line(node.get_text(" ")))
            return
        run: list[PageElement] = []
        for child in list(node.children):
            if isinstance(child, Tag) and _holds_blocks(child):
                self._paragraph(run)
                run = []
                self._block(child, depth + 1)
            else:
                run.append(child)
        self._paragraph(run)

    def _paragraph(self, run: list[PageElement]) -> None:
        text = "".join(_inline(node) for node in run)
        self._outline.add(_tidy(text))

    def _block(self, tag: Tag, depth: int) -> None:
        match tag.name:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._outline.heading(int(tag.name[1]), one_line(_inline(tag)))
            case "ul" | "ol" | "menu":
                self._outline.add("\n".join(_list_lines(tag, depth=depth)), kind="list")
            case "table":
                self._table(tag, depth)
            case "pre":
                self._outline.add(f"```\n{tag.get_text().strip()}\n```", kind="code")
            case "details":
                self._details(tag, depth)
            case "dl":
                self._definitions(tag, depth)
            case "hr":
                pass
            case _:
                self.read(tag, depth)

    def _table(self, tag: Tag, depth: int) -> None:
        rows = _nearest(tag, ("tr",), closed=("table",))
        cells = [row.find_all(["td", "th"], recursive=False) for row in rows]
        if tag.find("table") or max((len(row) for row in cells), default=0) < 2:
            # Layout, not data.
            for row in cells:
                for cell in row:
                    self.read(cell, depth)
            return
        if caption := tag.find("caption"):
            self._outline.add(one_line(_inline(caption)))
        texts = [[_cell_text(cell, depth) for cell in row] for row in cells]
        self._outline.add(table_text(texts), kind="table")

    def _details(self, tag: Tag, depth: int) -> None:
        summary = tag.find("summary")
        question = one_line(_inline(summary)) if summary else ""
        if summary:
            summary.decompose()
        self._question(question, _fragment(tag, depth))

    def _definitions(self, tag: Tag, depth: int) -> None:
        terms: list[str] = []
        answers: list[str] = []
        for entry in _nearest(tag, ("dt", "dd"), closed=("dl",)):
            if entry.name == "dt":
                if answers:
                    self._question(*_definition(terms, answers))
                    terms, answers = [], []
                terms.append(one_line(_inline(entry)))
            else:
                answers.append(_fragment(entry, depth))
        self._question(*_definition(terms, answers))

    def _question(self, label: str, text: str) -> None:
        """A label that asks with its answer, or any other with what stands under it."""
        plain = bare_text(label)
        if label and text and seems_to_ask(plain):
            self._outline.add(text, kind="qa", question=label)
        else:
            self._outline.add(f"**{plain}**\n\n{text}".strip() if plain else text)


def _definition(terms: list[str], answers: list[str]) -> tuple[str, str]:
    return " / ".join(filter(None, terms)), "\n\n".join(filter(None, answers))


def _holds_blocks(tag: Tag) -> bool:
    return tag.name in _BLOCKS or tag.find(lambda inner: inner.name in _BLOCKS) is not None


def _fragment(tag: Tag, depth: int) -> str:
    outline = Outline()
    _HtmlReader(outline).read(tag, depth + 1)
    return outline_text(outline)


def _inline(node: PageElement, depth: int = 0) -> str:
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
        case "a":
            return _link(text, str(node.get("href") or ""))
        case name if name in _BLOCKS:
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
    items = tag.find_all("li", recursive=False) or [
        child for child in tag.children if isinstance(child, Tag)
    ]
    for number, item in enumerate(items, 1):
        mark = f"{number}. " if tag.name == "ol" else "- "
        nested: list[str] = []
        for child in _nearest(item, _LISTS, closed=_LISTS) if depth < _MAX_DEPTH else []:
            nested.extend(_list_lines(child, indent + " " * len(mark), depth=depth + 1))
            child.extract()
        text = _fragment(item, depth)
        if text:
            yield f"{indent}{mark}" + re.sub(r"\n+", f"\n{indent}{' ' * len(mark)}", text)
        yield from nested


def _cell_text(cell: Tag, depth: int) -> str:
    text = _fragment(cell, depth)
    return one_line(re.sub(r"\n+(?:- )?", " ; " if "\n- " in text else " ", text))


def _tidy(text: str) -> str:
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
