"""What the pages of one site have in common, learned from some of them: the frame that stands around every page's
content.

Three things are learned, none from a list of names. *Repeated*: a text that a good part of the pages says in the same
place.
*Keepers*: what practically all pages say, each with the page that keeps it if it is a sentence. *Link places*: places
that hold nothing but links on nearly every page that has them. The pages' own titles are never learned.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Fewer pages than this are no site to learn from.
LEAST_PAGES = 5
#: A text that this share of the pages says in the same place, and at least four of them, is their frame.
_REPEATED_SHARE = 0.3
_REPEATED_PAGES = 4
#: A sentence that fewer pages say is what these are about.
_EVERYWHERE_SHARE = 0.9
#: How many of the pages that have a place hold only links there.
_LINKS_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class PageShape:
    """Of one page: its places with their texts, those of them that hold only links, and the texts that it could keep
    for others.
    """

    name: str
    texts: dict[str, str]
    link_places: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiteLayout:
    """`pages` are the names of all pages of the set. `keepers` tells of what practically all of them say which one
    keeps it, if any.
    """

    repeated: frozenset[str] = frozenset()
    link_places: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()
    keepers: Mapping[str, str | None] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "repeated": sorted(self.repeated),
            "link_places": sorted(self.link_places),
            "pages": sorted(self.pages),
            "keepers": dict(self.keepers),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "SiteLayout":
        return cls(
            frozenset(value["repeated"]), frozenset(value["link_places"]), frozenset(value["pages"]), value["keepers"]
        )


def learn_layout(shapes: Sequence[PageShape], names: Collection[str]) -> SiteLayout | None:
    """The layout of a site from the shapes of some of its pages; `None` where they are too few to tell."""
    if len(shapes) < LEAST_PAGES:
        return None
    least = max(_REPEATED_PAGES, _REPEATED_SHARE * len(shapes))
    everywhere = max(_REPEATED_PAGES, _EVERYWHERE_SHARE * len(shapes))
    texts = Counter(key for shape in shapes for key in shape.texts.values())
    places = Counter(place for shape in shapes for place in shape.texts)
    links = Counter(place for shape in shapes for place in shape.link_places)
    keepers: dict[str, str | None] = dict.fromkeys(_most(texts, everywhere))
    for shape in sorted(shapes, key=lambda shape: (shape.name.count("/"), shape.name), reverse=True):
        keepers |= {key: shape.name for key in shape.sentences if key in keepers}
    return SiteLayout(
        repeated=frozenset(_most(texts, least)),
        link_places=frozenset(place for place in _most(links, least) if links[place] >= _LINKS_SHARE * places[place]),
        pages=frozenset(map(page_name, names)),
        keepers=keepers,
    )


def _most(counts: Counter[str], least: float) -> Iterable[str]:
    return (key for key, count in counts.items() if count >= least)


def page_name(name: str) -> str:
    """A name of a page without what servers add and leave out: `guide/index.html`, `guide.html` and `guide/` are
    `guide`.
    """
    return re.sub(r"(?:(?:^|/)index)?\.x?html?$", "", name.split("?")[0]).rstrip("/")
