"""What the pages of one site have in common, learned from some of them: the frame that stands around every page's content.

Two things are learned, neither from a list of names. *Repeated*: a text that a good part of the pages says in the same place.
*Link places*: places that hold nothing but links on nearly every page that has them. The pages' own titles are never learned.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bs4 import Tag

from knowledge.parsing.html.furniture import drop_furniture, drop_unread
from knowledge.parsing.html.profiles import PageLinks, Profile, page_name, place_of, profiles_of
from knowledge.parsing.html.tree import BLOCKS, HEADINGS, decode_page, tags_named, tree_of

#: Fewer pages than this are no site to learn from.
LEAST_PAGES = 5
#: A text that this share of the pages says in the same place, and at least four of them, is their frame.
_REPEATED_SHARE = 0.3
_REPEATED_PAGES = 4
#: How many of the pages that have a place hold only links there.
_LINKS_SHARE = 0.9
_LONGEST_REPEATED = 4_000
#: Of what stands beside links, such as "Table of contents".
_LONGEST_LABEL = 40
#: Of one page; what a page of a million tags has more is not looked at.
_MOST_PLACES = 5_000


@dataclass(frozen=True, slots=True)
class PageShape:
    """Of one page: its places with their texts, and those of them that hold only links."""

    texts: dict[str, str]
    link_places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteLayout:
    """`pages` are the names of all pages of the set. `keeper` is the one that keeps what all of them say in full sentences."""

    repeated: frozenset[str] = frozenset()
    link_places: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()
    keeper: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "repeated": sorted(self.repeated),
            "link_places": sorted(self.link_places),
            "pages": sorted(self.pages),
            "keeper": self.keeper,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "SiteLayout":
        return cls(
            frozenset(value["repeated"]),
            frozenset(value["link_places"]),
            frozenset(value["pages"]),
            value["keeper"],
        )


def page_shape(data: bytes, *, filename: str) -> PageShape:
    """What one page has in which place; raises `UnreadableDocumentError` for what is no text."""
    soup = tree_of(decode_page(data, filename=filename))
    links_of_page = PageLinks.of(soup, filename)
    drop_unread(soup)
    drop_furniture(soup)
    profiles = profiles_of(soup, links_of_page)
    texts: dict[str, str] = {}
    links: set[str] = set()
    doubled: set[str] = set()
    for tag in tags_named(soup, BLOCKS):
        profile = profiles[id(tag)]
        if not is_part(tag, profile):
            continue
        place = place_of(tag)
        if place in texts:
            doubled.add(place)
        texts[place] = repeated_key(place, profile)
        if holds_only_links(profile):
            links.add(place)
        if len(texts) >= _MOST_PLACES:
            break
    single = {place: key for place, key in texts.items() if place not in doubled}
    return PageShape(single, tuple(sorted(links - doubled)))


def is_part(tag: Tag, profile: Profile) -> bool:
    return tag.name not in HEADINGS and 0 < profile.characters <= _LONGEST_REPEATED


def repeated_key(place: str, profile: Profile) -> str:
    return f"{place}:{profile.digest:x}"


def holds_only_links(profile: Profile) -> bool:
    """Nothing but links, but for a label of a few words and what the links' titles say."""
    return profile.links > 0 and profile.apart <= min(_LONGEST_LABEL, profile.characters // 2)


def learn_layout(shapes: Sequence[PageShape], names: Collection[str]) -> SiteLayout | None:
    """The layout of a site from the shapes of some of its pages; `None` where they are too few to tell."""
    if len(shapes) < LEAST_PAGES:
        return None
    least = max(_REPEATED_PAGES, _REPEATED_SHARE * len(shapes))
    texts = Counter(key for shape in shapes for key in shape.texts.values())
    places = Counter(place for shape in shapes for place in shape.texts)
    links = Counter(place for shape in shapes for place in shape.link_places)
    return SiteLayout(
        repeated=frozenset(_most(texts, least)),
        link_places=frozenset(
            place for place in _most(links, least) if links[place] >= _LINKS_SHARE * places[place]
        ),
        pages=frozenset(map(page_name, names)),
        keeper=min(names, key=lambda name: (name.count("/"), page_name(name), name), default=""),
    )


def _most(counts: Counter[str], least: float) -> Iterable[str]:
    return (key for key, count in counts.items() if count >= least)
