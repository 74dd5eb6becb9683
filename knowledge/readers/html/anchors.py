"""The identifier by which a page opens at a heading."""

from bs4 import Tag

from knowledge.readers.html.tree import attribute, tags_named

#: As `Chunk.anchor` holds it.
LONGEST_ANCHOR = 200


def anchor_of(heading: Tag) -> str:
    """That of the heading, of something in it, or of what begins with it; empty where there is none."""
    if found := attribute(heading, "id"):
        return _bounded(found)
    for tag in tags_named(heading, ("a", "span", "strong"))[:5]:
        if found := attribute(tag, "id") or attribute(tag, "name"):
            return _bounded(found)
    node = heading
    while node.parent is not None and node.name != "body":
        before = node.find_previous_sibling()
        if any(str(sibling).strip() for sibling in node.previous_siblings if not isinstance(sibling, Tag)):
            return ""
        if before is not None:
            is_mark = not before.get_text(strip=True)
            return _bounded(attribute(before, "id") or attribute(before, "name")) if is_mark else ""
        node = node.parent
        if found := attribute(node, "id"):
            return _bounded(found)
    return ""


def _bounded(anchor: str) -> str:
    return anchor if len(anchor) <= LONGEST_ANCHOR and not any(map(str.isspace, anchor)) else ""
