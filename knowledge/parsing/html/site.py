"""What the pages of one site have in common, learned from some of them: the frame that stands around every page's content.

Two things are learned, neither from a list of names. *Repeated*: a text that a good part of the pages says in the same place.
*Link places*: places that hold nothing but links on nearly every page that has them. The pages' own titles are never learned.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: Fewer pages than this are no site to learn from.
LEAST_PAGES = 5
#: A text that this share of the pages says in the same place, and at least four of them, is their frame.
_REPEATED_SHARE = 0.3
_REPEATED_PAGES = 4
#: How many of the pages that have a place hold only links there.
_LINKS_SHARE = 0.9


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

    def keeps(self, name: str) -> bool:
        return page_name(name) == page_name(self.keeper)

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


def page_name(name: str) -> str:
    """A name of a page without what servers add and leave out: `guide/index.html`, `guide.html` and `guide/` are `guide`."""
    return re.sub(r"(?:(?:^|/)index)?\.x?html?$", "", name.split("?")[0]).rstrip("/")
