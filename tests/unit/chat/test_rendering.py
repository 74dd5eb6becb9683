"""Answers as HTML: what is linked, what is left out, and that nothing hostile gets through."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chat.rendering import plain_markdown, render_answer

_HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](//evil.example)",
    "[x](/admin/logout/)",
    "![x](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "<javascript:alert(1)>",
    "[1]: javascript:alert(1)\n\n[1]",
    '[x](https://a.example "onclick=alert(1)")',
    '[x](https://a.example "\\" onmouseover=\\"alert(1)")',
    "<a href='x' style='position:fixed' onclick=alert(1)>",
    "```<script>\nalert(1)\n```",
    "`<script>`",
    "| a |\n| - |\n| <iframe src=x> |",
    "<!-- --><base href=//evil.example>",
    "[1][2] [3]",
    "\x00<\u0000script>",
]
_ALLOWED_TAGS = set(
    "p br hr h1 h2 h3 h4 h5 h6 blockquote pre code em strong ul ol li a table thead tbody tr th td".split()
)
_ALLOWED_ATTRIBUTES = {"href", "target", "title", "class", "data-n", "rel", "start"}


class _Elements(HTMLParser):
    """Every element with its attributes, as a browser would read them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def render(markdown: str, *sources: int) -> str:
    return render_answer(markdown, turn_id="t", source_numbers=sources)


def links(html: str) -> list[dict[str, str]]:
    return [attributes for tag, attributes in _Elements(html).found if tag == "a"]


def assert_harmless(html: str) -> None:
    for tag, attributes in _Elements(html).found:
        assert tag in _ALLOWED_TAGS
        assert set(attributes) <= _ALLOWED_ATTRIBUTES
        address = attributes.get("href", "#source-")
        assert address.lower().startswith(("https://", "http://", "mailto:", "#source-"))


@pytest.mark.parametrize("markdown", _HOSTILE)
def test_hostile_markdown_is_harmless(markdown: str) -> None:
    assert_harmless(render(markdown, 1, 2))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(_HOSTILE) | st.text(max_size=20), max_size=6),
    st.sampled_from(["", " ", "\n", "\n\n> ", "\n- "]),
)
def test_no_mixture_of_hostile_pieces_gets_through(pieces: list[str], joint: str) -> None:
    assert_harmless(render(joint.join(pieces), 1))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[]()<>`*_#|-:! \n\\&;javscript1\"'/=", max_size=80))
def test_any_markdown_punctuation_is_harmless(markdown: str) -> None:
    assert_harmless(render(markdown, 1))


def test_given_source_is_cited_as_a_link() -> None:
    (link,) = links(render("Trente jours [2].", 1, 2))
    assert (link["href"], link["class"], link["data-n"]) == ("#source-t-2", "citation", "2")
    assert "target" not in link


def test_citation_of_a_source_not_given_disappears() -> None:
    assert render("Trente jours [7].", 1) == "<p>Trente jours.</p>\n"


def test_adjacent_citations_are_all_linked() -> None:
    assert [link["data-n"] for link in links(render("Oui [1][2] [3].", 1, 2, 3))] == ["1", "2", "3"]


@pytest.mark.parametrize("markdown", ["`liste[1]`", "```\nliste[1]\n```", "    liste[1]"])
def test_brackets_in_code_are_not_citations(markdown: str) -> None:
    html = render(markdown, 1)
    assert not links(html)
    assert "liste[1]" in html


def test_a_definition_by_the_model_does_not_take_over_a_citation() -> None:
    (link,) = links(render("Oui [1].\n\n[1]: https://evil.example", 1))[:1]
    assert link["href"] == "#source-t-1"


def test_ordinary_link_opens_apart_and_passes_nothing_on() -> None:
    (link,) = links(render("[site](https://example.org/a?b=1)"))
    assert (link["target"], link["rel"]) == ("_blank", "noopener nofollow")


def test_tables_lists_and_emphasis_are_rendered() -> None:
    html = render("| a | b |\n| - | - |\n| 1 | **2** |\n\n3. trois")
    assert "<td><strong>2</strong></td>" in html
    assert '<ol start="3">' in html


def test_html_is_shown_as_text() -> None:
    assert "&lt;b&gt;gras&lt;/b&gt;" in render("<b>gras</b>")


@given(st.text(alphabet="[]()<>!`\\\"' aé:/.*_&#;", max_size=40))
def test_text_of_others_makes_no_link_image_code_or_markup(text: str) -> None:
    [line] = MarkdownIt().parseInline(plain_markdown(text))
    kinds = {token.type for token in line.children or []}
    assert not kinds & {"link_open", "image", "code_inline", "html_inline"}, text
