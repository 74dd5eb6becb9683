"""HTML pages and fragments: what a reader sees as content.

Scripts, navigation, footers and empty fields go, and so do links that only lead elsewhere: to neighbours, to headings
of the same page, to pages that are read as well, whose words stand where they lead. What the markup calls content
stays, whatever surrounds it.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString
from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, one_line, outline_text, page_name, title_key
from knowledge.readers.markup import (
    HEADINGS,
    TAKEN_OUT,
    MarkupReader,
    attribute,
    remaining_tags,
    tags_named,
    take_out_marks,
    tree_of,
)
from knowledge.readers.office import picture_text
from knowledge.readers.text import decode_text

#: Not the XML declaration, which servers and editors leave behind.
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_DROPPED = frozenset(
    "script style nav footer noscript template iframe svg math object "
    "select input textarea canvas audio video head".split()
)
#: Words of the rules of a style sheet that a text is read by.
_CSS_READ = re.compile("line-through|vertical-align|list-style", re.IGNORECASE)
_LONGEST_RULE = 2_000
#: Kinds of fields that show what is typed in them.
_TYPED = frozenset(["", *"text number date time datetime-local month week tel email url".split()])
_MOST_ALIKE = 3
#: Where a box to tick stands beside what it says.
_ASKED = frozenset("label li p td th dd".split())
_SURROUNDING_ROLES = frozenset("navigation banner contentinfo search complementary dialog alertdialog".split())
#: Words of identifiers and classes, as sites, their generators and their consent tools use them.
_SURROUNDING_NAMES = re.compile(
    r"(?:^|[-_\s])(?:cookies?|consent|gdpr|rgpd|tarteaucitron\w*|didomi\w*|onetrust\w*|axeptio\w*|breadcrumbs?|"
    r"fil-?d?-?ariane|skip-?links?|skip-to-content|share-(?:buttons?|links?)|social-share|sphinxsidebar\w*|"
    r"nav-?(?:header|footer|bar|wrapper)|site-(?:header|footer)|(?<!\S)footer(?!\S))(?:$|[-_\s])",
    re.IGNORECASE,
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*(?:collapse|hidden)", re.IGNORECASE)
#: What stays as it is in an address; brackets would end the link that it is written in.
_ADDRESS_SIGNS = ":/?#@!$&'*+,;=%~"
#: A longer text about cookies is a page about cookies.
_LONGEST_SURROUNDING = 3_000

#: Of what stands beside links, such as "Table of contents".
_LONGEST_LABEL = 40
_LEAST_POINTERS = 3
_LABELS = frozenset([*HEADINGS, "caption", "dt", "summary", "strong", "b"])
_POINTERS = frozenset("ul ol dl menu table div section aside details tr dd td".split())


def parse_html(data: bytes, *, filename: str, pages: Collection[str] = ()) -> ParsedDocument:
    """A page as text. `pages` are the names (`page_name`) of the pages of its site, where it is called
    `filename`."""
    soup = tree_of(_decode_page(data, filename=filename))
    title = one_line(soup.title.get_text()) if soup.title else ""
    outline = Outline()
    links = Links(soup, filename, pages)
    _drop_permalinks(soup)
    _write_styles_out(soup)
    drop_unread(soup)
    if hidden := _drop_hidden_cells(soup):
        outline.notices.append(_("tableaux : cellules masquées, ignorées : %(count)d") % {"count": hidden})
    whole = soup.get_text(" ", strip=True)
    for tag in remaining_tags(soup):
        if _is_furniture(tag) and tag.find(["h1", "main", "article"]) is None:
            tag.decompose()
    pointers = drop_pointers(soup, links)
    links.complete()
    write_pictures_out(soup)
    outline.struck = take_out_marks(soup)
    if not soup.get_text(strip=True) and not pointers:  # a page of nothing else
        outline.add(one_line(whole))
    MarkupReader(outline).read(soup.find("main") or soup.body or soup)
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
        with suppress(LookupError, UnicodeError):
            return data.decode(declared[1].decode("ascii"))
    return decode_text(data, filename=filename)


def _write_styles_out(soup: Tag) -> None:
    """Give tags what the page's own style sheet says of their classes: struck, raised, how a list counts."""
    said: dict[str, str] = {}
    for sheet in tags_named(soup, ("style",)):
        for rule in sheet.get_text().split("}"):
            selectors, _brace, rules = rule.rpartition("{")
            is_read = len(rule) < _LONGEST_RULE and _CSS_READ.search(rules)
            for name in re.findall(r"(?<![^\s,])[\w-]*\.([\w-]+)\s*(?:,|$)", selectors) if is_read else ():
                said[name] = f"{said.get(name, '')};{rules}"
    for tag in remaining_tags(soup) if said else ():
        of_classes = ";".join(said.get(name, "") for name in attribute(tag, "class").split())
        tag["style"] = f"{of_classes};{attribute(tag, 'style')}"


def drop_unread(soup: BeautifulSoup) -> None:
    """Take out what is no text: scripts, styles, empty fields, controls, comments."""
    for tag in (tag for tag in remaining_tags(soup) if tag.name in _DROPPED):
        if shown := _filled_in(tag):
            tag.replace_with(f" {shown} ")
        else:
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


def _filled_in(field: Tag) -> str:
    """What a browser shows in a field: what was typed, chosen or ticked."""
    kind = attribute(field, "type").lower()
    if field.name == "textarea":
        return field.get_text()
    if field.name == "select":
        chosen = (option for option in tags_named(field, ("option",)) if option.has_attr("selected"))
        return ", ".join(one_line(option.get_text()) for option in chosen)
    if field.name == "input" and kind in _TYPED:
        return attribute(field, "value")
    is_box = kind in ("checkbox", "radio") and field.parent is not None and field.parent.name in _ASKED
    return ("☒" if field.has_attr("checked") else "☐") if is_box else ""


def write_pictures_out(soup: Tag) -> None:
    """Put what pictures show in their place; one text for many is a program's, that of a link alone a control."""
    pictures = [(image, attribute(image, "alt")) for image in tags_named(soup, ("img",))]
    often = Counter(shown for _image, shown in pictures)
    for image, shown in pictures:
        is_said = often[shown] <= _MOST_ALIKE and getattr(image.parent, "name", "") != "a"
        image.replace_with(picture_text(shown) if is_said else "")


def _drop_hidden_cells(soup: Tag) -> int:
    """Take out what no browser shows of tables, and count its cells; elsewhere what is hidden waits for a click."""
    count = 0
    for tag in remaining_tags(soup):
        is_hidden = tag.has_attr("hidden") or _HIDDEN_STYLE.search(attribute(tag, "style"))
        if not is_hidden or tag.name not in ("table", "thead", "tbody", "tfoot", "tr", "td", "th"):
            continue
        is_cell = tag.name in ("td", "th")
        count += 1 if is_cell else len(tags_named(tag, ("td", "th")))
        # A cell that is only not visible keeps its place.
        if is_cell and "visibility" in attribute(tag, "style").lower() and not tag.has_attr("hidden"):
            tag.clear()
        else:
            tag.decompose()
    return count


def _drop_permalinks(soup: BeautifulSoup) -> None:
    """Take out the signs that link a heading to itself (`¶`, `#`)."""
    for tag in tags_named(soup, ("a",)):
        is_sign = "#" in attribute(tag, "href") and not re.search(r"\w", tag.get_text())
        if is_sign and not tag.get("id") and not tag.get("name"):
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


@dataclass(slots=True)
class Links:
    """Where the links of one page lead; made of a whole page, before anything is taken out."""

    soup: BeautifulSoup
    name: str
    #: Names of the pages of the site.
    pages: Collection[str]
    #: What relative addresses start from; empty where the page does not say, and was not fetched.
    base: str = ""

    def __post_init__(self) -> None:
        own = [
            tag
            for tag in tags_named(self.soup, ("base", "link"))
            if "canonical" in attribute(tag, "rel") or tag.name == "base"
        ]
        base = urljoin(self.name, attribute(min(own, key=lambda tag: tag.name), "href")) if own else self.name
        self.base = base if "://" in base else ""

    def target(self, address: str) -> str:
        """Return the `page_name` of the page that a link leads to; empty for a mere `#fragment` of this page."""
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


class _Counts(NamedTuple):
    """Of a part of a page: characters, those in links, headings, and links: all, within the page, to pages that are read
    as well, with words that no label has."""

    characters: int = 0
    linked: int = 0
    headings: int = 0
    links: int = 0
    local: int = 0
    inside: int = 0
    own: int = 0


def _counts(soup: BeautifulSoup, links: Links) -> dict[int, _Counts]:
    """The counts of every tag of the page, by its identity; each text is looked at once, however deep it is."""
    labels = {title_key(one_line(tag.get_text())) for tag in tags_named(soup, _LABELS)}
    found: dict[int, _Counts] = {}
    for tag in reversed(list(remaining_tags(soup))):
        parts = (found[id(child)] for child in tag.children if isinstance(child, Tag))
        counts = _Counts(*map(sum, zip(*parts, strict=True)))
        texts = (one_line(child) for child in tag.children if isinstance(child, NavigableString))
        characters = counts.characters + sum(len(text) for text in texts if re.search(r"\w", text))
        counts = counts._replace(characters=characters, headings=counts.headings + (tag.name in HEADINGS))
        if tag.name == "a" and not counts.links and characters:
            counts = counts._replace(own=title_key(one_line(tag.get_text())) not in labels)
            if address := attribute(tag, "href"):
                target = links.target(address)
                is_local = target in ("", page_name(links.name))
                counts = counts._replace(linked=characters, links=1, local=is_local, inside=target in links.pages)
        found[id(tag)] = counts
    return found


def drop_pointers(soup: BeautifulSoup, links: Links) -> int:
    """Take out parts that only lead elsewhere, but for a mark; returns how many links led to pages read as well."""
    counts = _counts(soup, links)
    pointers = 0
    pending: list[Tag] = [soup]
    while pending:
        for child in [child for child in pending.pop().children if isinstance(child, Tag)]:
            if child.name not in _POINTERS or not _only_leads(counts[id(child)]):
                pending.append(child)
                continue
            pointers += counts[id(child)].inside
            child.clear()
            child.name, child.attrs = TAKEN_OUT, {}
    return pointers


def _only_leads(counts: _Counts) -> bool:
    """Whether a part has nothing but links, but for a label of a few words, and these say nothing of their own."""
    apart = counts.characters - counts.linked
    if counts.headings or counts.links < _LEAST_POINTERS or apart > min(_LONGEST_LABEL, counts.characters // 2):
        return False
    if counts.local == counts.links:
        return not counts.own
    return counts.inside + counts.local >= 0.8 * counts.links
