"""What each part of a page consists of: how much text, how much of it in links, and where these lead."""

import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from bs4 import BeautifulSoup, Tag
from bs4.element import Comment, NavigableString

from knowledge.readers.base import one_line
from knowledge.readers.html.site import page_name
from knowledge.readers.html.tree import HEADINGS, attribute, tags_named

#: Access keys of DocBook's and Sphinx's links to neighbours: previous, up, next, home, index.
_NEIGHBOUR_KEYS = frozenset("puhni")
_NEIGHBOURS = frozenset(["prev", "previous", "next", "up", "home", "start", "first", "last", "index", "contents", "search"])  # fmt: skip
_MODULUS = (1 << 61) - 1
_FACTOR = 1_000_003
#: Tags around another that tell where it stands.
_LEVELS = 5
_CODE = ("code", "tt", "kbd", "samp")
#: `config.site_name`
_DOTTED = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+")
_WORD = re.compile(r"\w")
_WORDS = re.compile(r"\w\S*")
_STOP = re.compile(r"[.!?…。！？][\s\"'”’»)\]]*$")


@dataclass(slots=True)
class Profile:
    """Characters of text, those outside links that no link or title of the page says as well, and links by where they
    lead.
    """

    characters: int = 0
    linked: int = 0
    apart: int = 0
    links: int = 0
    #: To the page itself, to pages of the same set, to neighbours that the page declares, to other sites.
    local: int = 0
    inside: int = 0
    neighbours: int = 0
    outside: int = 0
    #: Names in code, wherever they lead.
    names: int = 0
    headings: int = 0
    #: Of what is counted in `apart`: words, and texts that end as a sentence does.
    said: int = 0
    stops: int = 0
    #: The text's own fingerprint, whatever tags it stands in.
    words: int = 0
    digest: int = 0

    def add(self, other: "Profile") -> None:
        self.digest = (self.digest * pow(_FACTOR, other.words, _MODULUS) + other.digest) % _MODULUS
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTED = (
    *("characters", "linked", "apart", "links", "local", "inside", "neighbours", "outside", "names"),
    *("headings", "words", "said", "stops"),
)


@dataclass(slots=True)
class PageLinks:
    """Where the links of one page lead. `name` is the page's in its set, `pages` are all names of the set."""

    name: str
    pages: Collection[str] = ()
    #: The neighbours that its head names.
    declared: set[str] = field(default_factory=set)
    #: What its title and the titles of its links say: said again beside a link, it says nothing.
    known: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, soup: BeautifulSoup, name: str, pages: Collection[str] = ()) -> "PageLinks":
        """Of a whole page, before anything is taken out."""
        links = cls(name, pages)
        for link in tags_named(soup, ("link",)):
            if _NEIGHBOURS.intersection(attribute(link, "rel").lower().split()):
                links.declared.add(links.target(attribute(link, "href")))
        links.declared.discard("")
        titles = [attribute(tag, "title") for tag in tags_named(soup, ("a", "link"))]
        titles += [tag.get_text() for tag in tags_named(soup, ("title", "h1"))]
        links.known = {one_line(title).casefold() for title in titles if title}
        return links

    def target(self, address: str) -> str:
        """The name of the page that an address leads to, empty for this one."""
        plain = urldefrag(address.strip())[0]
        if not plain:
            return ""
        return page_name(urljoin(self.name, plain) if "://" in self.name else _joined(self.name, plain))


def _joined(name: str, address: str) -> str:
    if urlsplit(address).scheme or address.startswith("//"):
        return address
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(name), unquote(address))).lstrip("/") + (
        "/" if address.endswith("/") else ""
    )  # fmt: skip


def profiles_of(soup: BeautifulSoup, links: PageLinks) -> dict[int, Profile]:
    """The profile of every tag of a page, by its identity; one walk, each text looked at once."""
    found: dict[int, Profile] = {}
    pending: list[tuple[Tag, bool, bool]] = [(soup, False, False)]
    while pending:
        tag, in_link, is_done = pending.pop()
        in_link = in_link or (tag.name == "a" and bool(tag.get("href")))
        if not is_done:
            pending.append((tag, in_link, True))
            pending.extend((child, in_link, False) for child in tag.children if isinstance(child, Tag))
            continue
        found[id(tag)] = _profile(tag, found, links, in_link=in_link)
    return found


def _profile(tag: Tag, found: dict[int, Profile], links: PageLinks, *, in_link: bool) -> Profile:
    profile = Profile(headings=int(tag.name in HEADINGS))
    for child in tag.children:
        if isinstance(child, Tag):
            profile.add(found[id(child)])
        elif isinstance(child, NavigableString) and not isinstance(child, Comment):
            text = one_line(child)
            if not text:
                continue
            size = len(text) if _WORD.search(text) else 0
            is_known = in_link or text.casefold() in links.known
            digest = int.from_bytes(blake2b(text.encode(), digest_size=7).digest())
            profile.add(
                Profile(
                    characters=size,
                    linked=size if in_link else 0,
                    apart=0 if is_known else size,
                    said=0 if is_known else len(_WORDS.findall(text)),
                    stops=0 if is_known else int(bool(_STOP.search(text))),
                    words=1,
                    digest=digest,
                )
            )
    if tag.name == "a" and (address := attribute(tag, "href")):
        _count_link(profile, tag, address, links)
    return profile


def _count_link(profile: Profile, tag: Tag, address: str, links: PageLinks) -> None:
    target = links.target(address)
    if attribute(tag, "accesskey") in _NEIGHBOUR_KEYS or (target and target in links.declared):
        profile.neighbours += 1
    elif not profile.characters:
        return
    profile.links += 1
    if _is_name(tag):
        profile.names += 1
    elif not target or target == page_name(links.name):
        profile.local += 1
    elif target in links.pages:
        profile.inside += 1
    elif "://" in target and urlsplit(target).netloc != urlsplit(links.name).netloc:
        profile.outside += 1


def _is_name(tag: Tag) -> bool:
    """Whether a link is a name in code, or written as one: a list of these says which there are, not where to read on."""
    if _DOTTED.fullmatch(one_line(tag.get_text())):
        return True
    inner = [child for child in tag.children if isinstance(child, Tag) or str(child).strip()]
    return len(inner) == 1 and isinstance(inner[0], Tag) and inner[0].name in _CODE


def place_of(tag: Tag) -> str:
    """Where a tag stands in its page: names, classes and identifiers of what it is in, without figures."""
    steps: list[str] = []
    node: Tag | None = tag
    while node is not None and node.name not in ("body", "[document]") and len(steps) < _LEVELS:
        classes = ".".join(sorted(attribute(node, "class").split()))
        steps.append(f"{node.name}.{classes}#{re.sub(r'[0-9]+', '', attribute(node, 'id'))}")
        node = node.parent
    return blake2b("/".join(steps).encode(), digest_size=8).hexdigest()
