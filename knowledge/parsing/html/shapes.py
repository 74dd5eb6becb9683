"""The shape of one page, from which the layout of its site is learned."""

from bs4 import Tag

from knowledge.parsing.html.furniture import drop_furniture, drop_unread
from knowledge.parsing.html.profiles import PageLinks, Profile, place_of, profiles_of
from knowledge.parsing.html.site import PageShape
from knowledge.parsing.html.tree import BLOCKS, HEADINGS, decode_page, tags_named, tree_of

_LONGEST_REPEATED = 4_000
#: Of what stands beside links, such as "Table of contents".
_LONGEST_LABEL = 40
#: Of one page; what a page of a million tags has more is not looked at.
_MOST_PLACES = 5_000


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
