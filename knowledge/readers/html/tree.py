"""Trees of tags: read from bytes however broken they are, and no deeper than a page is."""

import re
from collections.abc import Container

from bs4 import BeautifulSoup, Tag

from knowledge.readers.base import clean_text
from knowledge.readers.text import decode_text

BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption "
    "figure form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu ol p pre section "
    "summary table tbody thead tfoot tr td th ul".split()
)
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
#: A tag deeper than this in its tree is text: pages of real sites end at about 40.
_MAX_TREE_DEPTH = 100
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_CELLS = ("td", "th", "li", "dt", "dd", "summary")
_ROWS = ("tbody", "thead", "tfoot", "tr")


def tree_of(text: str) -> BeautifulSoup:
    # A declaration of encoding inside decoded text makes the parser decode it a second time.
    soup = BeautifulSoup(re.sub(r"^\s*<\?xml[^>]*\?>", "", clean_text(text)), "lxml")
    _flatten(soup)
    return soup


def decode_page(data: bytes, *, filename: str) -> str:
    declared = _CHARSET.search(data[:4096])
    if declared and b"\0" not in data[:4096]:
        try:
            return data.decode(declared[1].decode("ascii"))
        except (LookupError, UnicodeError):
            pass
    return decode_text(data, filename=filename)


def _flatten(soup: BeautifulSoup) -> None:
    """Leave the text alone of what is nested deeper than a page is: what is read of a tag looks at all that it holds."""
    pending: list[tuple[Tag, int]] = [(soup, 0)]
    while pending:
        tag, depth = pending.pop()
        inner = [child for child in tag.children if isinstance(child, Tag)]
        if inner and depth >= _MAX_TREE_DEPTH and tag.name not in _ROWS:
            text = tag.get_text(" ")
            tag.clear()
            tag.append(text)
            # What is read by its parts (rows, items) would have none.
            tag.name = tag.name if tag.name in _CELLS else "div"
        else:
            pending.extend((child, depth + 1) for child in inner)


def tags_named(tag: Tag, names: Container[str]) -> list[Tag]:
    """The tags of these names within `tag`, in order. `find_all` compares each tag with each name, three times as
    slowly.
    """
    return [node for node in tag.descendants if isinstance(node, Tag) and node.name in names]


def nearest(tag: Tag, names: Container[str], closed: Container[str]) -> list[Tag]:
    """The tags of these names within `tag`, in order, but for those within another `closed` one."""
    found: list[Tag] = []
    pending = list(tag.children)[::-1]
    while pending:
        node = pending.pop()
        if not isinstance(node, Tag):
            continue
        if node.name in names:
            found.append(node)
        if node.name not in closed:
            pending.extend(list(node.children)[::-1])
    return found


def attribute(tag: Tag, name: str) -> str:
    value = tag.get(name)
    return " ".join(value) if isinstance(value, list) else str(value or "")
