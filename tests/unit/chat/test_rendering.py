"""Answers as HTML: citations to given sources stay, and nothing hostile gets through."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from chat.rendering import CitationFilter, escape_citations, plain_markdown, render_answer
from tests.markdown_cases import HOSTILE, WRITTEN
from tests.waiting import little_work

_ALLOWED_TAGS = set(
    "p br hr h1 h2 h3 h4 h5 h6 blockquote pre code em strong s ul ol li a table thead tbody tr th td div span".split()
)
_MARKS = "[]()<>`*_#|-:! \n\\&;javscript1\"'/="
_ALLOWED_ATTRIBUTES = set("href target title class data-n rel start dir tabindex align".split())


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


@pytest.mark.parametrize("markdown", HOSTILE)
def test_hostile_markdown_is_harmless(markdown: str) -> None:
    assert_harmless(render(markdown, 1, 2))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20) | st.text(_MARKS, max_size=80), max_size=6),
    st.sampled_from(["", " ", "\n", "\n\n> ", "\n- "]),
)
def test_no_mixture_of_hostile_pieces_gets_through(pieces: list[str], joint: str) -> None:
    assert_harmless(render(joint.join(pieces), 1))


def test_given_source_is_cited_as_a_link() -> None:
    (link,) = links(render("Trente jours [2].", 1, 2))
    assert (link["href"], link["class"], link["data-n"]) == ("#source-t-2", "citation", "2")
    assert "target" not in link


def test_citation_of_a_source_not_given_disappears() -> None:
    assert render("Trente jours [7].", 1) == '<p dir="auto">Trente jours.</p>\n'


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


def test_bare_addresses_are_linked_without_the_end_of_their_sentence() -> None:
    html = render(WRITTEN["addresses"])
    assert [link["href"] for link in links(html)] == [
        "https://a.example/c_d?x=1&y=2",
        "https://a.example/x_(y)",
        "http://www.example.org",
        "https://b.example",
        "mailto:ana@example.org",
    ]
    assert "ana@example.org</a>!" in html
    assert not links(render("`https://a.example` ftp://a.example a/www.b.example x:@y.z"))


def test_image_is_a_link_and_nothing_is_loaded() -> None:
    html = render(WRITTEN["images"])
    assert "<img" not in html
    assert [(link["href"], link.get("class")) for link in links(html)] == [
        ("https://a.example/plan.png", "image"),
        ("https://a.example/carte", None),
    ]
    assert ">Le plan</a>" in html


@pytest.mark.parametrize("piece", ["\\(", "\\[", "https://a.b)", "a@b", "~~a", "[x", "![x](", "- [ ] "])
def test_marks_that_nothing_closes_cost_no_time(piece: str) -> None:
    with little_work(10):
        render(piece * 20_000)


@given(st.text(alphabet="[]()<>!`\\\"' aé:/.*_&#;", max_size=40))
def test_text_of_others_makes_no_link_image_code_or_markup(text: str) -> None:
    [line] = MarkdownIt().parseInline(plain_markdown(text))
    kinds = {token.type for token in line.children or []}
    assert not kinds & {"link_open", "image", "code_inline", "html_inline"}, text


@pytest.mark.parametrize("line", ["*Source : FAQ Validée* [1]", "*Source: Guide* [1]"])
def test_one_source_is_not_named_twice(line: str) -> None:
    assert render(f"Douze euros.\n\n{line}", 1) == '<p dir="auto">Douze euros.</p>\n'
    assert "Source" in render(f"Douze euros.\n\n{line}", 1, 2)
    assert "Source" in render(f"{line}\n\nDouze euros.", 1)


def clean_citations(text: str, given: set[int]) -> str:
    citations = CitationFilter(given)
    return citations.feed(text) + citations.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ouvert le mardi [1].", "Ouvert le mardi [1]."),
        ("Ouvert le mardi [7].", "Ouvert le mardi."),
        ("Selon [Source 2], oui.", "Selon [2], oui."),
        ("Oui [1, 2 et 9].", "Oui [1][2]."),
        ("Un [lien](https://exemple.fr) et [x].", "Un [lien](https://exemple.fr) et [x]."),
        ("tableau[0] et liste [12]", "tableau et liste"),
        ("Voir [1], [9], [2] ; [8] et [7].", "Voir [1], [2]."),
        ("Voir [9], [8], puis [1] et [2].", "Voir, puis [1] et [2]."),
        ("Oui 【1】. Non 【2†source】.", "Oui [1]. Non [2]."),
        ("Deux mois (1). Trois (2), puis", "Deux mois [1]. Trois [2], puis"),
        ("Article 12 (2). Tarif : 5 (1).", "Article 12 (2). Tarif : 5 (1)."),
        ("Voir source 1 du fleuve.", "Voir source 1 du fleuve."),
        ("[ab]  " * 60 + "mot", "[ab]  " * 60 + "mot"),
        ("(1) d’abord, pendant trois (2) jours, article (12).", "(1) d’abord, pendant trois (2) jours, article (12)."),
        ("Oui [1-2], [1–3], [^1], (sources 1 et 2).", "Oui [1][2], [1][2], [1], [1][2]."),
        ("Selon la source 2, source de 12 km.", "Selon la [2], source de 12 km."),
        (
            "Le rang a[1], ligne[2] = 5, le café[2] et la forêt [1].",
            "Le rang a[1], ligne[2] = 5, le café[2] et la forêt [1].",
        ),
        (
            "Écrivez `a[10]` [1] puis\n```\nx[0] = `y`[3]\n```\net `b[9]\nfin [7] [1].",
            "Écrivez `a[10]` [1] puis\n```\nx[0] = `y`[3]\n```\net `b[9]\nfin [1].",
        ),
    ],
)
def test_only_given_sources_stay_cited(text: str, expected: str) -> None:
    assert clean_citations(text, {1, 2}) == expected


PIECES = (
    "[1]",
    " [2]",
    "[Source 1]",
    " [9]",
    "[",
    "]",
    "mot",
    " ",
    "[lien](u)",
    "\n",
    "[1, 9]",
    *("`", "``", "```", ", ", "a", " et ", "(1)", ".", "【2】", "source 1", "s"),
)


@example(["```", "```", "[Source 1]"], 2)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.integers(min_value=1, max_value=5))
def test_streamed_text_equals_the_text_cleaned_whole(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    citations = CitationFilter({1, 2})
    streamed = "".join(citations.feed(text[i : i + size]) for i in range(0, len(text), size))
    assert streamed + citations.flush() == clean_citations(text, {1, 2})


def test_text_without_brackets_is_never_held_back() -> None:
    citations = CitationFilter({1})
    assert citations.feed("Bonjour") == "Bonjour"


def test_numbers_in_brackets_of_a_document_are_no_citations() -> None:
    markdown = escape_citations("Voir la note [2] et `t[2]`.") + " [1]"
    html = render_answer(markdown, turn_id="t", source_numbers={1, 2})
    assert "note [2]" in html
    assert "<code>t[2]</code>" in html
    assert html.count("#source-t-") == 1
