"""Plain text: encodings, paragraphs, and cautious structure."""

import pytest

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.registry import parse_document

FRENCH = "Où déposer la demande ? À la mairie, « contre reçu », pour 12 € — même l’été."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_text_is_decoded_whatever_its_encoding(encoding: str) -> None:
    parsed = parse_document(FRENCH.encode(encoding), filename="note.txt")
    assert parsed.blocks[0].text == FRENCH


def test_latin_1_is_decoded() -> None:
    text = "Le délai légal est dépassé à Noël, ça arrive."
    assert parse_document(text.encode("latin-1"), filename="n.txt").blocks[0].text == text


def test_other_alphabets_are_decoded() -> None:
    text = "Заявление подаётся в мэрию по месту жительства. Срок рассмотрения — один месяц. " * 5
    parsed = parse_document(text.encode("cp1251"), filename="n.txt")
    assert "мэрию" in parsed.blocks[0].text


def test_binary_content_is_refused() -> None:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse_document(bytes(range(256)) * 40, filename="note.txt")
    assert "binaire" in str(caught.value.public_message)


def test_underlined_titles_are_headings() -> None:
    parsed = parse_document(b"Guide\n=====\n\nIntro.\n\nSuite\n-----\n\nTexte.", filename="g.txt")
    assert parsed.title == "Guide"
    assert [block.headings for block in parsed.blocks] == [(), ("Suite",)]


def test_short_line_before_prose_is_a_guessed_heading() -> None:
    text = "Le délai est d’un mois.\n\nRecours gracieux\n\nVous pouvez écrire au maire dans les deux mois."
    parsed = parse_document(text.encode(), filename="g.txt")
    assert [(block.headings, block.inferred) for block in parsed.blocks] == [((), 0), (("Recours gracieux",), 1)]


def test_short_line_before_short_line_stays_text() -> None:
    parsed = parse_document("Nom\nDupont\nPrénom\nJeanne".encode(), filename="g.txt")
    assert not any(block.headings for block in parsed.blocks)


def test_uncertain_title_ends_the_reach_of_the_one_before() -> None:
    text = (
        "En ligne\n\nVous devez vous connecter au site de la mairie.\n\nPar courrier\n\nécrivez-nous.\n\n"
        "La réponse arrive dans le mois."
    )
    parsed = parse_document(text.encode(), filename="g.txt")
    assert parsed.blocks[0].headings == ("En ligne",)
    assert all(not block.headings for block in parsed.blocks[1:])


def test_bullets_are_one_list() -> None:
    parsed = parse_document("Il faut :\n\n• un timbre\n• une copie\n".encode(), filename="g.txt")
    assert [block.kind for block in parsed.blocks] == ["prose", "list"]
