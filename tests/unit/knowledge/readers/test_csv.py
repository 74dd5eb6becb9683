"""CSV files of questions and answers."""

import pytest

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document


def parse(text: str, encoding: str = "utf-8") -> ParsedDocument:
    return parse_document(text.encode(encoding), filename="faq_rh.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_are_questions_with_their_category(delimiter: str) -> None:
    rows = [["id", "Question", "RÉPONSE", "Catégorie"], ["7", "Quel délai ?", "Un mois.", "Paie"]]
    parsed = parse("\n".join(delimiter.join(row) for row in rows))
    block = parsed.blocks[0]
    assert (block.kind, block.question, block.text) == ("qa", "Quel délai ?", "Un mois.")
    assert (block.category, parsed.title) == ("Paie", "faq rh")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_spreadsheet_encodings_are_read(encoding: str) -> None:
    assert parse("question;réponse\nOù ?;À Évry\n", encoding).blocks[0].text == "À Évry"


def test_incomplete_rows_are_skipped_with_their_line() -> None:
    parsed = parse('question,answer\nA ?,"un\ndeux"\nB ?,\n,C\n\nD ?,quatre\n')
    assert [block.question for block in parsed.blocks] == ["A ?", "D ?"]
    assert [notice.split(" :")[0] for notice in parsed.notices] == ["ligne 4", "ligne 5"]


def test_html_in_answers_becomes_text() -> None:
    parsed = parse('question,answer\nA ?,"<p>Oui&nbsp;: <b>un</b></p><ul><li>x</li></ul>"\n')
    assert parsed.blocks[0].text == "Oui\xa0: **un**\n\n- x"


def test_file_without_the_columns_is_refused_naming_them() -> None:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse("nom,prix\nstylo,2\n")
    assert "question" in str(caught.value.public_message)
    assert "réponse" in str(caught.value.public_message)


def test_header_alone_is_refused() -> None:
    with pytest.raises(UnreadableDocumentError):
        parse("question,answer\n")
