"""Citations to sources that were given stay, others go, however the stream is cut."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat.rendering import CitationFilter, escape_citations, render_answer


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
    ],
)
def test_only_given_sources_stay_cited(text: str, expected: str) -> None:
    assert clean_citations(text, {1, 2}) == expected


@example(["```", "```", "[Source 1]"], 2)
@given(
    st.lists(
        st.sampled_from(
            ["[1]", " [2]", "[Source 1]", " [9]", "[", "]", "mot", " ", "[lien](u)", "\n", "[1, 9]", "`", "``", "```"]
        ),
        max_size=12,
    ),
    st.integers(min_value=1, max_value=5),
)
def test_streamed_text_equals_the_text_cleaned_whole(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    citations = CitationFilter({1, 2})
    streamed = "".join(citations.feed(text[i : i + size]) for i in range(0, len(text), size))
    assert streamed + citations.flush() == clean_citations(text, {1, 2})


def test_text_without_brackets_is_never_held_back() -> None:
    citations = CitationFilter({1})
    assert citations.feed("Bonjour") == "Bonjour"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 200])
def test_code_keeps_its_brackets_however_the_text_is_cut(size: int) -> None:
    text = "Écrivez `a[10]` [1] puis\n```\nx[0] = `y`[3]\n```\net `b[9]\nfin [7] [1]."
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    cleaner = CitationFilter({1})
    out = "".join(cleaner.feed(piece) for piece in pieces) + cleaner.flush()
    assert out == "Écrivez `a[10]` [1] puis\n```\nx[0] = `y`[3]\n```\net `b[9]\nfin [1]."


def test_numbers_in_brackets_of_a_document_are_no_citations() -> None:
    markdown = escape_citations("Voir la note [2] et `t[2]`.") + " [1]"
    html = render_answer(markdown, turn_id="t", source_numbers={1, 2})
    assert "note [2]" in html
    assert "<code>t[2]</code>" in html
    assert html.count("#source-t-") == 1
