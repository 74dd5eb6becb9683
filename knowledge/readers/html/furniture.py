"""What is no content on any page: scripts, fields and controls; and by its role or its name menus, banners, consent,
breadcrumbs.
"""

import re
from itertools import islice

from bs4 import BeautifulSoup, Comment, Tag
from bs4.element import NavigableString

from knowledge.readers.html.tree import HEADINGS, attribute, tags_named

_DROPPED = frozenset([
    "script", "style", "nav", "footer", "noscript", "template", "iframe", "svg", "math", "object",
    "select", "input", "textarea", "canvas", "audio", "video", "head",
])  # fmt: skip
_SURROUNDING_ROLES = frozenset(
    ["navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog"]
)
#: Words of identifiers and classes, as sites and their consent tools use them.
_SURROUNDING_NAMES = re.compile(
    r"(?:^|[-_\s])(?:cookies?|consent|gdpr|rgpd|tarteaucitron\w*|didomi\w*|onetrust\w*|axeptio\w*|breadcrumbs?|"
    r"fil-?d?-?ariane|skip-?links?|skip-to-content|share-(?:buttons?|links?)|social-share)(?:$|[-_\s])",
    re.IGNORECASE,
)
#: A longer text about cookies is a page about cookies.
_LONGEST_SURROUNDING = 3_000
_MOST_SURROUNDING_NODES = 500


def drop_unread(soup: BeautifulSoup) -> None:
    """Take out what is no text: scripts, styles, fields, controls, comments, marks that link a heading to itself."""
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
    drop_permalinks(soup)


def drop_permalinks(soup: BeautifulSoup) -> None:
    """Take out the signs that link a heading to itself (`¶`, `#`)."""
    for tag in tags_named(soup, ("a",)):
        is_sign = "#" in attribute(tag, "href") and not re.search(r"\w", tag.get_text())
        if is_sign and not tag.get("id") and not tag.get("name"):
            tag.decompose()


def drop_furniture(soup: BeautifulSoup) -> None:
    """Take out what stands around the content by what the page calls it.

    What holds the page's own title or article is content, whatever it is called. Hidden parts stay: accordions hide
    answers.
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
    return bool(_SURROUNDING_NAMES.search(names)) and _is_small(tag)


def _is_small(tag: Tag) -> bool:
    """Few nodes with little text; looked at no farther than that, as tags may be nested without end."""
    inner = list(islice(tag.descendants, _MOST_SURROUNDING_NODES + 1))
    length = sum(len(node) for node in inner if isinstance(node, NavigableString))
    return len(inner) <= _MOST_SURROUNDING_NODES and length < _LONGEST_SURROUNDING
