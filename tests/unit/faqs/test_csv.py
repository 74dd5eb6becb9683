"""Validated answers as CSV: what is exported comes back the same, and nothing in it runs as a formula."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faqs.answers import AnswerRejectedError, clean_answer, one_line
from faqs.csv import FaqRow, csv_lines, parse_csv
from tests.constants import override

QUESTIONS = st.text(min_size=1, max_size=60).map(one_line).filter(bool)
ANSWERS = st.text(min_size=1, max_size=200).map(clean_answer).filter(bool)
ROWS = st.lists(
    st.builds(
        FaqRow,
        question=QUESTIONS,
        answer=ANSWERS,
        category=QUESTIONS,
        phrasings=st.lists(QUESTIONS, max_size=4).map(tuple),
    ),
    max_size=8,
)


def written(rows: list[FaqRow]) -> bytes:
    return "".join(csv_lines(rows)).encode()


def cleaned(row: FaqRow) -> FaqRow:
    return FaqRow(row.question, clean_answer(row.answer), row.category, row.phrasings)


@given(ROWS)
def test_what_is_exported_comes_back_the_same_and_no_cell_begins_as_a_formula(rows: list[FaqRow]) -> None:
    read, failed = parse_csv(written(rows))
    assert failed == []
    assert [cleaned(row) for row in read] == rows
    for cells in csv.reader(io.StringIO(written(rows).decode(), newline="")):
        assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in cells)


def test_rows_know_the_line_they_begin_on() -> None:
    rows, _ = parse_csv(b'question,answer\n"Un ?\nDeux ?","a\nb"\n\nTrois ?,c\n')
    assert [(row.question, row.phrasings, row.line) for row in rows] == [("Un ?", ("Deux ?",), 2), ("Trois ?", (), 6)]


@pytest.mark.parametrize(
    "data",
    [
        "question;réponse;catégorie\nPrix ?;12 €;Tarifs\n".encode("cp1252"),
        "\ufeffQuestion\tRéponse\tCatégorie\nPrix ?\t12 €\tTarifs\n".encode(),
        "Questions,Réponses,Catégorie\nPrix ?,12 €,Tarifs\n".encode(),
        "id,category,answer,question\n7,Tarifs,12 €,Prix ?\n".encode("utf-16"),
    ],
)
def test_spreadsheets_of_every_kind_are_read(data: bytes) -> None:
    (row,), _ = parse_csv(data)
    assert (row.question, row.answer, row.category) == ("Prix ?", "12 €", "Tarifs")


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n", b"\x00\x01\x02", b"question\nPrix ?\n"])
def test_file_that_is_no_list_of_answers_is_refused(data: bytes) -> None:
    with pytest.raises(AnswerRejectedError):
        parse_csv(data)


@override(FAQ_MAX_IMPORT_ROWS=2)
def test_rows_above_the_limit_are_said_to_be_left_out() -> None:
    rows, failed = parse_csv(b"question,answer\na,1\nb,2\nc,3\nd,4\n")
    assert [row.question for row in rows] == ["a", "b"]
    assert [entry.line for entry in failed] == [4]


def test_row_with_more_cells_than_the_header_is_refused_not_cut() -> None:
    data = "question;answer;category\nOù payer ?;En ligne : portail; au guichet;École\nOù ?;Là.\n".encode()
    rows, failed = parse_csv(data)
    assert [row.question for row in rows] == ["Où ?"]
    assert [(each.line, each.item) for each in failed] == [(2, "Où payer ?")]
