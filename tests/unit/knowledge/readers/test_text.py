"""Plain text: encodings, paragraphs, and cautious structure."""

import pytest

from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal

FRENCH = "Où déposer la demande ? À la mairie, « contre reçu », pour 12 € — même l’été."
ENCODINGS = "utf-8 utf-8-sig utf-16 utf-16-le utf-16-be utf-32 cp1252".split()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((FRENCH, encoding) for encoding in ENCODINGS),
        ("Le délai légal est dépassé à Noël, ça arrive.", "latin-1"),
        (("Заявление подаётся в мэрию по месту жительства. Срок рассмотрения — один месяц. " * 5).strip(), "cp1251"),
    ],
)
def test_text_is_decoded_whatever_its_encoding(text: str, encoding: str) -> None:
    assert parse_document(text.encode(encoding), filename="note.txt").blocks[0].text == text


def test_binary_content_is_refused() -> None:
    assert "binaire" in refusal(bytes(range(256)) * 40, "note.txt")


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
