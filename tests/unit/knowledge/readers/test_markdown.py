"""Markdown files: titles, heading paths, blocks, and files whose lines carry the structure."""

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document


def parse(text: str, filename: str = "fiche-conges.md") -> ParsedDocument:
    return parse_document(text.encode(), filename=filename)


def test_first_h1_is_the_title_and_in_no_path() -> None:
    parsed = parse("# Congés\n\nIntro.\n\n## Durée\n\n### Cadres\n\nTrente jours.\n\n## Report\n\nNon.")
    assert parsed.title == "Congés"
    assert parsed.source_type == SourceType.MARKDOWN
    assert [block.headings for block in parsed.blocks] == [(), ("Durée", "Cadres"), ("Report",)]


def test_front_matter_gives_title_and_category() -> None:
    parsed = parse('---\ntitle: "Guide RH"\ncatégorie: Paie\n---\n\nBonjour.\n')
    assert (parsed.title, parsed.blocks[0].category) == ("Guide RH", "Paie")
    assert parsed.blocks[0].text == "Bonjour."


def test_file_name_is_the_last_resort_for_a_title() -> None:
    assert parse("Bonjour.", "dossier/mes_notes.md").title == "mes notes"


def test_quotation_under_the_title_is_text() -> None:
    parsed = parse("# Piscine\n\n> Ouverte lundi / mardi de 9 h à 12 h\n\nTexte.")
    assert [block.text for block in parsed.blocks] == ["Ouverte lundi / mardi de 9 h à 12 h", "Texte."]


def test_lists_tables_and_code_keep_their_marks() -> None:
    parsed = parse("# T\n\nIl faut :\n\n- un\n  - deux\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx = 1\n```")
    assert [block.kind for block in parsed.blocks] == ["prose", "list", "table", "code"]
    assert parsed.blocks[1].text == "- un\n  - deux"
    assert parsed.blocks[2].text.startswith("| a | b |")


def test_lines_broken_at_a_margin_are_joined() -> None:
    parsed = parse("Une phrase assez longue qui continue\nsur la ligne suivante sans rupture.")
    assert parsed.blocks[0].text == ("Une phrase assez longue qui continue sur la ligne suivante sans rupture.")


def test_heading_without_text_is_not_lost() -> None:
    parsed = parse("# T\n\n## Vide\n\n## Plein\n\nTexte.")
    assert [(block.headings, block.text) for block in parsed.blocks] == [((), "Vide"), (("Plein",), "Texte.")]


def test_details_are_questions_and_answers() -> None:
    parsed = parse("# T\n\n<details>\n<summary>Qui <b>signe</b> ?</summary>\n\n- le maire\n- l’adjoint\n\n</details>\n")
    assert parsed.blocks[0].kind == "qa"
    assert parsed.blocks[0].question == "Qui signe ?"
    assert parsed.blocks[0].text == "- le maire\n- l’adjoint"


def test_long_lines_stay_lines() -> None:
    lines = ["Vous devez adresser votre demande complète au service compétent de votre commune de résidence. " * 2] * 12
    assert parse("# T\n\n" + "\n".join(lines)).blocks[0].text == "\n".join(line.strip() for line in lines)
