"""What one document may become: bounded by its size, whatever it holds, and it says where it was cut."""

import unicodedata
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from knowledge.chunking import weight_of
from knowledge.embeddings.base import Purpose
from knowledge.isolation import ReadDocument, read_here
from knowledge.language.words import MOST_MARKS, bounded_marks, fold, fold_letters
from tests.hashing import HashingEmbedder
from tests.waiting import little_work


def read(text: str, name: str = "x.md") -> ReadDocument:
    return read_here(text.encode(), filename=name)


def said(found: ReadDocument) -> int:
    return sum(len(draft.content) + len(draft.parent_context) for draft in found.drafts)


def table(columns: int, rows: int, header: str) -> str:
    head = "| " + " | ".join([header] * columns) + " |\n|" + " --- |" * columns + "\n"
    return head + ("| " + " | ".join(["c"] * columns) + " |\n") * rows


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # One header of 100 kB stood in each passage of its table: 880 kB became 368 MB.
        (table(1, 1, "h" * 100_000) + "| abc def ghi |\n" * 5_000, "x.md"),
        (table(1_000, 20, "h" * 20), "x.md"),
        # The short rows of a table are filled up to its widest.
        (table(2_000, 1, "h") + "| a |\n" * 2_000, "x.md"),
        ("<table><tr>" + "<td>a</td>" * 2_000 + "</tr>" + "<tr><td>b<td>c</tr>" * 2_000, "x.html"),
        # One heading of 100 kB stood above each passage of its section.
        ("# T\n\n## " + "x" * 100_000 + "\n\n" + "### s\n\n" + "mot " * 50_000, "x.md"),
        ("<h2>" + "x" * 100_000 + "</h2>" + f"<p>{'mot ' * 300}</p>" * 200, "x.html"),
    ],
    ids=["header", "columns", "rows", "html rows", "heading", "html heading"],
)
def test_what_is_repeated_above_passages_is_short(text: str, name: str) -> None:
    assert said(read(text, name)) < 8 * len(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<ul><li>a" * 20_000, "x.html"),
        (("<ul><li>a" * 400 + "</li></ul>" * 400) * 10, "x.html"),
        ("<table><tr><td>a" * 5_000, "x.html"),
        (("<table><tr><td>a" * 200 + "</td></tr></table>" * 200) * 10, "x.html"),
        ("<dl><dt>a<dd>" * 5_000, "x.html"),
        ("<details><summary>a</summary>" * 5_000, "x.md"),
        (">" * 100_000 + " a", "x.md"),
        ("".join(f"{'  ' * depth}- a{depth}\n" for depth in range(1_000)), "x.md"),
        ("` " * 500_000, "x.md"),
        ("a\n\n" * 30_000, "x.txt"),
        ("a" + "\u0301\u0316" * 50_000, "x.txt"),
    ],
    ids=["ul", "ul closed", "table", "table closed", "dl", "details", "quotes", "list", "backticks", "lines", "marks"],
)
def test_what_is_nested_or_repeated_takes_no_square_of_it(text: str, name: str) -> None:
    with little_work(20):
        assert read(text, name).drafts


def test_a_document_is_cut_and_says_so(settings: Settings) -> None:
    settings.MAX_DOCUMENT_CHUNKS = 100
    found = read("question,answer\n" + "".join(f"Quoi {i} ?,a\n" for i in range(500)), "x.csv")
    assert len(found.drafts) == 100
    assert "seuls ses 100 premiers passages" in found.notices[0]
    settings.MAX_DOCUMENT_WEIGHT = 2_000
    dense = read("[" * 50_000)
    assert sum(weight_of(draft.content) for draft in dense.drafts) <= 2_000
    assert dense.notices
    assert read("Un texte court.").notices == ()


def test_the_same_text_is_embedded_once() -> None:
    embedder = HashingEmbedder()
    texts = ["un", "deux", "un", "un"] * 100
    with mock.patch.object(embedder, "_embed_batch", wraps=embedder._embed_batch) as embedded:
        rows = embedder.embed(texts, purpose=Purpose.PASSAGE)
    assert sorted(text for call in embedded.call_args_list for text in call.args[0]) == ["deux", "un"]
    assert np.array_equal(rows, np.stack([embedder.embed([t], purpose=Purpose.PASSAGE)[0] for t in texts]))


@given(st.text(alphabet="ae\u0301\u0316\u0327é -'", max_size=200))
def test_marks_of_ordinary_text_stay(text: str) -> None:
    kept = bounded_marks(text)
    if "\u0301" * 2 not in text:
        runs = max((len(run) for run in _runs_of_marks(text)), default=0)
        assert runs > MOST_MARKS or kept == text
    assert max((len(run) for run in _runs_of_marks(kept)), default=0) <= MOST_MARKS


def _runs_of_marks(text: str) -> list[str]:
    return "".join(c if unicodedata.combining(c) else " " for c in text).split()


@pytest.mark.parametrize("letter", ["a ", "'", "1", "\u0301\u0316", "a\u200d", "? ", "é"])
def test_a_question_of_any_letters_is_folded_at_once(letter: str) -> None:
    text = "a" + letter * 8_000
    with little_work(0.5):
        fold(text)
        fold_letters(text)
