"""The shape of one page, from which the layout of its site is learned."""

from bs4 import Tag

from knowledge.readers.html.furniture import drop_furniture, drop_unread
from knowledge.readers.html.profiles import PageLinks, Profile, place_of, profiles_of
from knowledge.readers.html.site import PageShape, page_name
from knowledge.readers.html.tree import BLOCKS, HEADINGS, decode_page, tags_named, tree_of

_LONGEST_REPEATED = 4_000
#: Of what stands beside links, such as "Table of contents".
_LONGEST_LABEL = 40
#: Words of a sentence that ends as one, and of one that does not: a short notice in a box.
_STOPPED_WORDS = 2
_SENTENCE_WORDS = 5
_CONTENT = ("main", "article")
#: Of one page; what a page of a million tags has more is not looked at.
_MOST_PLACES = 5_000


def page_shape(data: bytes, *, filename: str) -> PageShape:
    """What one page has in which place; raises `UnreadableDocumentError` for what is no text."""
    soup = tree_of(decode_page(data, filename=filename))
    links_of_page = PageLinks.of(soup, filename)
    drop_unread(soup)
    drop_furniture(soup)
    profiles = profiles_of(soup, links_of_page)
    # Of a page with a main part nothing else is read, and in there no sentence is left out.
    keeps_sentences = soup.find("main") is None
    texts: dict[str, str] = {}
    sentences: set[str] = set()
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
        if keeps_sentences and is_spoken(profile) and not in_content(tag):
            sentences.add(texts[place])
        if holds_only_links(profile):
            links.add(place)
        if len(texts) >= _MOST_PLACES:
            break
    single = {place: key for place, key in texts.items() if place not in doubled}
    return PageShape(
        name=page_name(filename),
        texts=single,
        link_places=tuple(sorted(links - doubled)),
        sentences=tuple(sorted(sentences)),
    )


def is_part(tag: Tag, profile: Profile) -> bool:
    return tag.name not in HEADINGS and 0 < profile.characters <= _LONGEST_REPEATED


def repeated_key(place: str, profile: Profile) -> str:
    return f"{place}:{profile.digest:x}"


def holds_only_links(profile: Profile) -> bool:
    """Nothing but links, but for a label of a few words and what the links' titles say."""
    return profile.links > 0 and profile.apart <= min(_LONGEST_LABEL, profile.characters // 2)


def is_spoken(profile: Profile) -> bool:
    """Whether it says a sentence outside links; what is shorter is a label."""
    return (
        profile.apart > _LONGEST_LABEL
        or profile.said >= _SENTENCE_WORDS
        or (profile.stops > 0 and profile.said >= _STOPPED_WORDS)
    )


def in_content(tag: Tag) -> bool:
    return tag.name in _CONTENT or any(parent.name in _CONTENT for parent in tag.parents)
