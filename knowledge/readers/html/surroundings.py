"""What stands around the content of a page and names nothing of itself, taken out before the page is read.

*Frame*: what the layout of its site has learned; a sentence only where practically all pages say it and one keeps it.
*Pointers*: parts that hold nothing but links to neighbours, to headings of the same
page or to pages that are read as well, whose words stand where they lead. What is taken out leaves a mark, so that a
title above it
does not look empty.
"""

from collections.abc import Mapping

from bs4 import BeautifulSoup, Tag

from knowledge.readers.base import one_line
from knowledge.readers.html.profiles import PageLinks, Profile, place_of, profiles_of
from knowledge.readers.html.shapes import holds_only_links, in_content, is_part, is_spoken, repeated_key
from knowledge.readers.html.site import SiteLayout, page_name
from knowledge.readers.html.tree import BLOCKS, HEADINGS, tags_named

#: The name of the tag that stands where something was taken out.
TAKEN_OUT = "taken-out"
#: More links than this are no neighbours.
_MOST_NEIGHBOURS = 8
#: Fewer links than this are a mention, not a list of contents.
_LEAST_POINTERS = 3
#: A page of so many links, with so much of its text in them, is an index.
_INDEX_LINKS = 30
_INDEX_SHARE = 0.35
_LABELS = frozenset([*HEADINGS, "caption", "dt", "summary", "strong", "b"])
_LISTS = frozenset("ul ol dl menu table div section aside details tr dd td".split())


def drop_surroundings(soup: BeautifulSoup, links: PageLinks, layout: SiteLayout | None) -> int:
    """Take out frame and pointers; returns how many links were pointers to pages that are read as well."""
    return _Surroundings(soup, profiles_of(soup, links), links, layout).drop()


class _Surroundings:
    """The parts of one page, looked at from the outermost inwards."""

    def __init__(
        self, soup: BeautifulSoup, profiles: dict[int, Profile], links: PageLinks, layout: SiteLayout | None
    ) -> None:
        self._soup = soup
        self._profiles = profiles
        self._layout = layout
        self._name = page_name(links.name)
        self._headings = {one_line(tag.get_text()).casefold() for tag in tags_named(soup, _LABELS)}
        whole = self._profiles[id(soup)]
        self._is_index = (
            layout is not None
            and whole.links >= _INDEX_LINKS
            and whole.linked >= _INDEX_SHARE * whole.characters
            and whole.inside + whole.local + whole.names >= 0.9 * whole.links
        )

    def drop(self) -> int:
        pointers = 0
        pending: list[Tag] = [self._soup]
        while pending:
            for child in list(pending.pop().children):
                if not isinstance(child, Tag):
                    continue
                profile = self._profiles[id(child)]
                if child.name not in BLOCKS or not profile.characters:
                    pending.append(child)
                elif self._is_frame(child, profile):
                    _take_out(child)
                elif self._is_pointers(child, profile):
                    pointers += profile.inside
                    _take_out(child)
                else:
                    pending.append(child)
        return pointers

    def _is_frame(self, tag: Tag, profile: Profile) -> bool:
        if self._layout is None or not is_part(tag, profile):
            return False
        place = place_of(tag)
        key = repeated_key(place, profile)
        if key in self._layout.repeated:
            return self._is_repeated_frame(tag, profile, key, self._layout.keepers)
        in_place = place in self._layout.link_places and holds_only_links(profile)
        return in_place and 2 * profile.outside <= profile.links

    def _is_repeated_frame(self, tag: Tag, profile: Profile, key: str, keepers: Mapping[str, str | None]) -> bool:
        if not is_spoken(profile):
            return key in keepers or holds_only_links(profile) or not in_content(tag)
        keeper = keepers.get(key)
        return keeper not in (None, self._name) and not in_content(tag)

    def _is_pointers(self, tag: Tag, profile: Profile) -> bool:
        if self._is_index and tag.name in ("ul", "ol", "dl", "table"):
            return profile.linked >= _INDEX_SHARE * profile.characters
        if profile.headings or not holds_only_links(profile):
            return False
        are_few = profile.neighbours and profile.links <= _MOST_NEIGHBOURS
        if are_few and 2 * profile.neighbours >= profile.links:
            return True
        if tag.name not in _LISTS or profile.links < _LEAST_POINTERS:
            return False
        if profile.local == profile.links:
            return self._are_headings(tag)
        return profile.inside + profile.local >= 0.8 * profile.links

    def _are_headings(self, tag: Tag) -> bool:
        """Whether the links to places of this page say what stands there."""
        links = [one_line(link.get_text()).casefold() for link in tags_named(tag, ("a",))]
        return all(text in self._headings for text in links if text)


def _take_out(tag: Tag) -> None:
    tag.clear()
    tag.name = TAKEN_OUT
    tag.attrs = {}
