"""HTML pages and fragments to light Markdown.

Only what a reader sees as content is kept: scripts, styles, navigation, footers and form fields go. Questions that the
markup declares (FAQPage data) become questions and answers.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from bs4 import BeautifulSoup
from django.utils.translation import gettext as _

from agents.texts import read_json
from knowledge.models import SourceType
from knowledge.readers.base import Outline, ParsedDocument, bare_text, one_line, outline_text
from knowledge.readers.html.furniture import drop_furniture, drop_permalinks, drop_unread
from knowledge.readers.html.profiles import PageLinks
from knowledge.readers.html.reader import HtmlReader
from knowledge.readers.html.site import SiteLayout
from knowledge.readers.html.surroundings import drop_surroundings
from knowledge.readers.html.trail import trail_of
from knowledge.readers.html.tree import decode_page, tree_of


def parse_html(data: bytes, *, filename: str, layout: SiteLayout | None = None) -> ParsedDocument:
    """A page as text. `layout` is what the pages of its site have in common, among which it is called `filename`."""
    soup = tree_of(decode_page(data, filename=filename))
    title = one_line(soup.title.get_text()) if soup.title else ""
    outline = Outline()
    declared = list(_declared_questions(soup))
    links = PageLinks.of(soup, filename, layout.pages if layout else ())
    drop_permalinks(soup)
    first = soup.find("h1") or soup.find("h2")
    trail = trail_of(soup, one_line(first.get_text()) if first else title, links)
    drop_unread(soup)
    whole = soup.get_text(" ", strip=True)
    drop_furniture(soup)
    pointers = drop_surroundings(soup, links, layout)
    if not soup.get_text(strip=True) and not pointers:  # a page of nothing else
        outline.add(one_line(whole))
    HtmlReader(outline).read(soup.find("main") or soup.body or soup)
    for question, answer in declared:
        outline.add_apart(answer, question=bare_text(question))
    if pointers and not outline.blocks:
        return _contents(outline.title or title or filename)
    parsed = outline.finish(filename=filename, source_type=SourceType.HTML, title=title)
    return replace(parsed, above=(*trail, parsed.title) if trail else ())


def _contents(title: str) -> ParsedDocument:
    """A page of nothing but links to pages that are read as well: what it says stands there, and it would answer in
    their place.
    """
    notice = _("Sommaire ou index : cette page n’a que des liens vers d’autres, qui sont lues.")
    return ParsedDocument(title, (), SourceType.HTML, (notice,))


def html_fragment_text(fragment: str) -> str:
    """A fragment of HTML (an answer, a table cell) as light Markdown."""
    soup = tree_of(fragment)
    drop_unread(soup)
    outline = Outline()
    HtmlReader(outline).read(soup)
    return outline_text(outline)


def _declared_questions(soup: BeautifulSoup) -> Iterator[tuple[str, str]]:
    """Questions and answers of schema.org FAQPage data (JSON-LD)."""
    for script in soup.find_all("script", type="application/ld+json"):
        try:
            data = read_json(script.get_text())
        except (ValueError, RecursionError):
            continue
        for entity in _walk_json(data):
            answer = entity.get("acceptedAnswer")
            if isinstance(answer, list) and answer:
                answer = answer[0]
            text = answer.get("text") if isinstance(answer, dict) else None
            question = entity.get("name")
            if isinstance(question, str) and isinstance(text, str):
                yield html_fragment_text(question), html_fragment_text(text)


def _walk_json(data: object) -> Iterator[dict[str, object]]:
    pending = deque([data])
    while pending:
        value = pending.popleft()
        if isinstance(value, dict):
            if value.get("@type") in ("Question", ["Question"]):
                yield value
            else:
                pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
