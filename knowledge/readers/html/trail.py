"""What a page is part of, as it says itself: the titles above its own, from breadcrumbs or from its head."""

import html
import re
from collections import deque
from collections.abc import Iterator, Sequence

from bs4 import BeautifulSoup, Tag
from bs4.element import Comment
from django.conf import settings

from agents.texts import read_json
from knowledge.readers.base import one_line
from knowledge.readers.html.profiles import PageLinks
from knowledge.readers.html.tree import attribute, tags_named

_BETWEEN = frozenset("»›>/→")
_NAMED = re.compile(r"bread-?crumbs?|fil-?\s?d.?ariane|ariane", re.IGNORECASE)
_HOME = frozenset(["accueil", "home", "start", "documentation"])
#: A page deeper in its site than this names its nearest ancestors.
_MOST_STEPS = 4
#: Parts that are longer than this are no trail.
_MOST_TEXTS = 60
#: A trail stands near the beginning of its page.
_MOST_LINKS = 200


def trail_of(soup: BeautifulSoup, title: str, links: PageLinks) -> tuple[str, ...]:
    """The titles of what holds the page, outermost first, without the site's own; empty where it says nothing."""
    if above := _neighbour(soup):
        return _bounded([above], title)
    home = {one_line(text).casefold() for text in _home_titles(soup, links)} | _HOME
    found = _declared(soup)[1:] or _marked(soup) or _written(soup, title)
    return _bounded([step for step in found if step.casefold() not in home], title)


def _bounded(steps: Sequence[str], title: str) -> tuple[str, ...]:
    """The last few steps above the page's own."""
    own = title.casefold()
    kept = [step for step in steps if own not in step.casefold() and step.casefold() not in own]
    return tuple(s for s in kept[-_MOST_STEPS:] if 0 < len(s) <= settings.MAX_HEADING_CHARACTERS)


def _home_titles(soup: BeautifulSoup, links: PageLinks) -> Iterator[str]:
    """What links to the first page of the site are called."""
    for tag in tags_named(soup, ("a",))[:_MOST_LINKS]:
        target = links.target(attribute(tag, "href"))
        is_root = not target.strip("/") if "://" not in target else target.count("/") == 2
        if is_root and not attribute(tag, "href").startswith("#"):
            yield from (tag.get_text(), attribute(tag, "title"))


def _declared(soup: BeautifulSoup) -> list[str]:
    """Of schema.org BreadcrumbList data (JSON-LD)."""
    for script in tags_named(soup, ("script",)):
        if attribute(script, "type") != "application/ld+json":
            continue
        try:
            pending = deque([read_json(script.get_text())])
        except (ValueError, RecursionError):
            continue
        while pending:
            value = pending.popleft()
            if isinstance(value, dict) and value.get("@type") == "BreadcrumbList":
                return _names(value.get("itemListElement"))
            pending.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return []


def _names(entries: object) -> list[str]:
    names = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            item = entry.get("item")
            name = entry.get("name") or (item.get("name") if isinstance(item, dict) else None)
            names += [one_line(html.unescape(name))] if isinstance(name, str) else []
    return names


def _marked(soup: BeautifulSoup) -> list[str]:
    """Of a part that is called a breadcrumb."""
    for tag in tags_named(soup, ("nav", "ol", "ul", "div"))[:_MOST_LINKS]:
        if _NAMED.search(f"{attribute(tag, 'aria-label')} {attribute(tag, 'class')} {attribute(tag, 'id')}"):
            steps = [text for text in _texts(tag) if text not in _BETWEEN]
            if len(steps) <= _MOST_STEPS * 2:
                return steps
    return []


def _neighbour(soup: BeautifulSoup) -> str:
    """Of the link upwards that manuals have in their head, or as an access key."""
    for tag in tags_named(soup, ("link", "a")):
        is_up = attribute(tag, "rel").lower() == "up" or attribute(tag, "accesskey") == "u"
        if is_up and (title := attribute(tag, "title")):
            return one_line(title)
    return ""


def _written(soup: BeautifulSoup, title: str) -> list[str]:
    """Of texts between signs of a trail, followed by the page's title."""
    for tag in tags_named(soup, ("nav", "ul", "ol", "div", "p"))[:_MOST_LINKS]:
        texts = _texts(tag) if tag.find("a") is not None else []
        own = [at for at, text in enumerate(texts) if text.casefold() == title.casefold()]
        steps: list[str] = []
        at = own[-1] - 1 if own else 0
        while at > 0 and texts[at] in _BETWEEN:
            steps.insert(0, texts[at - 1])
            at -= 2
        if steps:
            return steps
    return []


def _texts(tag: Tag) -> list[str]:
    """The texts of a small part as they follow each other, a link's as one."""
    found: list[str] = []
    pending = list(tag.children)[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, Tag) and node.name != "a":
            pending += list(node.children)[::-1]
        elif (text := one_line(node.get_text())) and not isinstance(node, Comment):
            found.append(text)
            if len(found) > _MOST_TEXTS:
                return []
    return found
