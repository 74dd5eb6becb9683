"""HTML pages and fragments: what a reader sees as content.

Scripts, navigation, footers and form fields go, and so do links that only lead elsewhere: to neighbours, to headings of
the same page, to pages that are read as well, whose words stand where they lead. What the markup calls content stays,
whatever surrounds it. Questions that the markup declares (FAQPage data) become questions and answers.
"""

import posixpath
import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString
from django.utils.translation import gettext as _

from agents.texts import read_json
from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, bare_text, one_line, outline_text, page_name
from knowledge.readers.markup import (
    BLOCKS,
    HEADINGS,
    TAKEN_OUT,
    MarkupReader,
    attribute,
    tags_named,
    take_out_marks,
    tree_of,
)
from knowledge.readers.text import decode_text

_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_DROPPED = frozenset(
    "script style nav footer noscript template iframe svg math object "
    "select input textarea canvas audio video head".split()
)
_SURROUNDING_ROLES = frozenset("navigation banner contentinfo search complementary dialog alertdialog".split())
#: Words of identifiers and classes, as sites, their generators and their consent tools use them.
_SURROUNDING_NAMES = re.compile(
    r"(?:^|[-_\s])(?:cookies?|consent|gdpr|rgpd|tarteaucitron\w*|didomi\w*|onetrust\w*|axeptio\w*|breadcrumbs?|"
    r"fil-?d?-?ariane|skip-?links?|skip-to-content|share-(?:buttons?|links?)|social-share|sphinxsidebar\w*|"
    r"nav-?(?:header|footer|bar|wrapper)|site-(?:header|footer)|(?<!\S)footer(?!\S))(?:$|[-_\s])",
    re.IGNORECASE,
)
#: What stays as it is in an address; brackets would end the link that it is written in.
_ADDRESS_SIGNS = ":/?#@!$&'*+,;=%~"
#: A longer text about cookies is a page about cookies.
_LONGEST_SURROUNDING = 3_000

#: Access keys of DocBook's and Sphinx's links to neighbours: previous, up, next, home, index.
_NEIGHBOUR_KEYS = frozenset("puhni")
_NEIGHBOURS = frozenset("prev previous next up home start first last index contents search".split())
_CODE = ("code", "tt", "kbd", "samp")
#: `config.site_name`
_DOTTED = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+")
#: Of what stands beside links, such as "Table of contents".
_LONGEST_LABEL = 40
#: More links are no neighbours; fewer are a mention, not a list of contents.
_MOST_NEIGHBOURS = 8
_LEAST_POINTERS = 3
_LABELS = frozenset([*HEADINGS, "caption", "dt", "summary", "strong", "b"])
_POINTERS = frozenset("ul ol dl menu table div section aside details tr dd td".split())


def parse_html(data: bytes, *, filename: str, pages: Collection[str] = ()) -> ParsedDocument:
    """A page as text. `pages` are the names (`page_name`) of the pages of its site, where it is called
    `filename`."""
    soup = tree_of(_decode_page(data, filename=filename))
    title = one_line(soup.title.get_text()) if soup.title else ""
    outline = Outline()
    declared = list(_declared_questions(soup))
    links = _Links(soup, filename, pages)
    _drop_permalinks(soup)
    drop_unread(soup)
    whole = soup.get_text(" ", strip=True)
    _drop_furniture(soup)
    pointers = _drop_pointers(soup, links)
    links.complete()
    outline.struck = take_out_marks(soup)
    if not soup.get_text(strip=True) and not pointers:  # a page of nothing else
        outline.add(one_line(whole))
    MarkupReader(outline).read(soup.find("main") or soup.body or soup)
    for question, answer in declared:
        outline.add_apart(answer, question=bare_text(question))
    if pointers and not outline.blocks:
        # What a contents page says stands where it leads, and it would answer in the place of those pages.
        notice = _("Sommaire ou index : cette page n’a que des liens vers d’autres, qui sont lues.")
        return ParsedDocument(outline.title or title or filename, (), SourceType.HTML, (notice,))
    return outline.finish(filename=filename, source_type=SourceType.HTML, title=title)


def html_fragment_text(fragment: str) -> str:
    """A fragment of HTML (an answer, a table cell) as light Markdown."""
    soup = tree_of(fragment)
    _drop_permalinks(soup)
    drop_unread(soup)
    take_out_marks(soup)
    outline = Outline()
    MarkupReader(outline).read(soup)
    return outline_text(outline)


def _decode_page(data: bytes, *, filename: str) -> str:
    declared = _CHARSET.search(data[:4096])
    if declared and b"\0" not in data[:4096]:
        try:
            return data.decode(declared[1].decode("ascii"))
        except (LookupError, UnicodeError):
            pass
    return decode_text(data, filename=filename)


# Data that the page declares (schema.org, JSON-LD)


def _declared(soup: BeautifulSoup, kind: str) -> Iterator[dict[str, Any]]:
    """The objects of a type, but for those within another."""
    for script in soup.find_all("script", type="application/ld+json"):
        try:
            pending = deque([read_json(script.get_text())])
        except (ValueError, RecursionError):
            continue
        while pending:
            value = pending.popleft()
            if isinstance(value, dict) and value.get("@type") in (kind, [kind]):
                yield value
            elif isinstance(value, dict | list):
                pending.extend(value.values() if isinstance(value, dict) else value)


def _declared_questions(soup: BeautifulSoup) -> Iterator[tuple[str, str]]:
    for entity in _declared(soup, "Question"):
        answer = entity.get("acceptedAnswer")
        if isinstance(answer, list) and answer:
            answer = answer[0]
        text = answer.get("text") if isinstance(answer, dict) else None
        question = entity.get("name")
        if isinstance(question, str) and isinstance(text, str):
            yield html_fragment_text(question), html_fragment_text(text)


# What is no content


def drop_unread(soup: BeautifulSoup) -> None:
    """Take out what is no text: scripts, styles, fields, controls, comments."""
    for tag in tags_named(soup, _DROPPED):
        if not tag.decomposed:
            tag.decompose()
    for tag in tags_named(soup, ("button",)):
        # Accordions put their title in a button inside a heading; other buttons are controls.
        if tag.find_parent([*HEADINGS, "dt", "summary"]):
            tag.unwrap()
        else:
            tag.decompose()
    for node in list(soup.descendants):
        if isinstance(node, Comment):
            node.extract()


def _drop_permalinks(soup: BeautifulSoup) -> None:
    """Take out the signs that link a heading to itself (`¶`, `#`)."""
    for tag in tags_named(soup, ("a",)):
        is_sign = "#" in attribute(tag, "href") and not re.search(r"\w", tag.get_text())
        if is_sign and not tag.get("id") and not tag.get("name"):
            tag.decompose()


def _drop_furniture(soup: BeautifulSoup) -> None:
    """Take out what stands around the content by what the page calls it, unless it holds the page's title or article.

    Hidden parts stay: accordions hide answers.
    """
    for tag in [node for node in soup.descendants if isinstance(node, Tag)]:
        if not tag.decomposed and _is_furniture(tag) and tag.find(["h1", "main", "article"]) is None:
            tag.decompose()


def _is_furniture(tag: Tag) -> bool:
    if tag.name in ("html", "body", "main", "article", "h1"):
        return False
    if attribute(tag, "role").lower() in _SURROUNDING_ROLES:
        return True
    if tag.name in ("header", "aside"):
        return tag.find_parent(["main", "article", "section"]) is None
    names = f"{attribute(tag, 'id')} {attribute(tag, 'class')}"
    return bool(_SURROUNDING_NAMES.search(names)) and len(tag.get_text()) < _LONGEST_SURROUNDING


# Links that only lead elsewhere


@dataclass(slots=True)
class _Counts:
    """Of a part of a page: characters, those in links, headings, and links: all, and those that lead to a neighbour, within
    the page, or to a page that is read as well.
    """

    characters: int = 0
    linked: int = 0
    headings: int = 0
    links: int = 0
    neighbours: int = 0
    local: int = 0
    inside: int = 0


@dataclass(slots=True)
class _Links:
    """Where the links of one page lead; made of a whole page, before anything is taken out."""

    soup: BeautifulSoup
    name: str
    #: Names of the pages of the site.
    pages: Collection[str]
    #: The neighbours that the head names.
    declared: set[str] = field(default_factory=set)
    #: What relative addresses start from; empty where the page does not say, and was not fetched.
    base: str = ""

    def __post_init__(self) -> None:
        for link in tags_named(self.soup, ("link",)):
            if _NEIGHBOURS.intersection(attribute(link, "rel").lower().split()):
                self.declared.add(self.target(attribute(link, "href")))
        self.declared.discard("")
        own = [attribute(tag, "href") for tag in tags_named(self.soup, ("base",))]
        own += [
            attribute(tag, "href") for tag in tags_named(self.soup, ("link",)) if attribute(tag, "rel") == "canonical"
        ]
        own = [self.name] + ([urljoin(self.name, own[0])] if own else [])
        self.base = own[-1] if "://" in own[-1] else ""

    def target(self, address: str) -> str:
        """The name of the page that an address leads to, empty for this one."""
        plain = urldefrag(address.strip())[0]
        if not plain:
            return ""
        if "://" in self.name:
            return page_name(urljoin(self.name, plain))
        if urlsplit(plain).scheme or plain.startswith("//"):
            return page_name(plain)
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(self.name), unquote(plain)))
        return page_name(path.lstrip("/"))

    def complete(self) -> None:
        """Write addresses out where the page's own is known; else a link to a page that is read as well says nothing."""
        for tag in tags_named(self.soup, ("a",)):
            address = attribute(tag, "href").strip()
            if not address or address.startswith("#") or re.match(r"[a-zA-Z][\w+.-]*:", address):
                continue
            if not self.base:
                tag["href"] = "" if self.target(address) in self.pages else address
                continue
            with suppress(ValueError):
                tag["href"] = quote(urljoin(self.base, address), safe=_ADDRESS_SIGNS)

    def counts(self) -> dict[int, _Counts]:
        """The counts of every tag of the page, by its identity; each text is looked at once."""
        found: dict[int, _Counts] = {}
        tags = [self.soup, *(tag for tag in self.soup.descendants if isinstance(tag, Tag))]
        for tag in reversed(tags):
            parts = [astuple(found[id(child)]) for child in tag.children if isinstance(child, Tag)]
            counts = found[id(tag)] = _Counts(*map(sum, zip(*parts, strict=True))) if parts else _Counts()
            texts = (one_line(t) for t in tag.children if isinstance(t, NavigableString) and not isinstance(t, Comment))
            counts.characters += sum(len(text) for text in texts if re.search(r"\w", text))
            counts.headings += tag.name in HEADINGS
            if tag.name == "a" and (address := attribute(tag, "href")):
                self._count_link(counts, tag, self.target(address))
        return found

    def _count_link(self, counts: _Counts, tag: Tag, target: str) -> None:
        counts.linked = counts.characters
        counts.neighbours += attribute(tag, "accesskey") in _NEIGHBOUR_KEYS or target in self.declared
        counts.links += bool(counts.characters)
        # A list of names in code says which there are, not where to read on.
        if counts.characters and not _is_name(tag):
            counts.local += not target or target == page_name(self.name)
            counts.inside += target in self.pages


def _is_name(tag: Tag) -> bool:
    """Whether a link is a name in code, or written as one: a list of these says which there are, not where to read on."""
    if _DOTTED.fullmatch(one_line(tag.get_text())):
        return True
    inner = [child for child in tag.children if isinstance(child, Tag) or str(child).strip()]
    return len(inner) == 1 and isinstance(inner[0], Tag) and inner[0].name in _CODE


def _drop_pointers(soup: BeautifulSoup, links: _Links) -> int:
    """Take out parts that only lead elsewhere, from the outermost inwards; returns how many links led to pages that are
    read as well. A mark is left in their place, so that a title above them does not look empty.
    """
    counts = links.counts()
    labels = {one_line(tag.get_text()).casefold() for tag in tags_named(soup, _LABELS)}
    pointers = 0
    pending: list[Tag] = [soup]
    while pending:
        for child in [child for child in pending.pop().children if isinstance(child, Tag)]:
            if child.name not in BLOCKS or not _leads(child, counts[id(child)], labels):
                pending.append(child)
                continue
            pointers += counts[id(child)].inside
            child.clear()
            child.name, child.attrs = TAKEN_OUT, {}
    return pointers


def _leads(tag: Tag, counts: _Counts, labels: Collection[str]) -> bool:
    """Whether a part has nothing but links, but for a label of a few words, and these say nothing of their own."""
    apart = counts.characters - counts.linked
    if counts.headings or not counts.links or apart > min(_LONGEST_LABEL, counts.characters // 2):
        return False
    if counts.links <= min(_MOST_NEIGHBOURS, 2 * counts.neighbours):
        return True
    if tag.name not in _POINTERS or counts.links < _LEAST_POINTERS:
        return False
    if counts.local == counts.links:
        said = [one_line(link.get_text()).casefold() for link in tags_named(tag, ("a",))]
        return all(text in labels for text in said if text)
    return counts.inside + counts.local >= 0.8 * counts.links
