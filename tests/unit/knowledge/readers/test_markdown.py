"""Markdown files: titles, heading paths, blocks, and files whose lines carry the structure."""

import pytest

from knowledge.models import SourceType
from knowledge.readers.base import ParsedDocument
from knowledge.readers.registry import parse_document


def parse(text: str) -> ParsedDocument:
    return parse_document(text.encode(), filename="fiche-conges.md")


def test_first_h1_is_the_title_and_in_no_path() -> None:
    parsed = parse("# Congés\n\nIntro.\n\n## Durée\n\n### Cadres\n\nTrente jours.\n\n## Report\n\nNon.")
    assert parsed.title == "Congés"
    assert parsed.source_type == SourceType.MARKDOWN
    assert [block.headings for block in parsed.blocks] == [(), ("Durée", "Cadres"), ("Report",)]


def test_front_matter_gives_title_and_category() -> None:
    parsed = parse('---\ntitle: "Guide RH"\ncatégorie: Paie\n---\n\nBonjour.\n')
    assert (parsed.title, parsed.blocks[0].category) == ("Guide RH", "Paie")
    assert parsed.blocks[0].text == "Bonjour."


def test_breadcrumb_under_the_title_is_the_category() -> None:
    parsed = parse("# Permis\n\n> Transports / Conduite\n\nTexte.")
    assert [(block.text, block.category) for block in parsed.blocks] == [("Texte.", "Transports / Conduite")]


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


LONG = "Vous devez adresser votre demande complète au service compétent de votre commune de résidence. " * 2


def test_titles_without_marks_are_found_between_long_lines() -> None:
    lines = []
    for name in ("Conditions", "Pièces à fournir", "Délai de réponse", "Recours possible"):
        lines += [name, LONG.strip(), LONG.strip()]
    parsed = parse("# T\n\n" + "\n".join(lines))
    assert {block.headings for block in parsed.blocks} == {
        ("Conditions",),
        ("Pièces à fournir",),
        ("Délai de réponse",),
        ("Recours possible",),
    }
    assert all(block.inferred == 1 for block in parsed.blocks)


def test_items_without_bullets_stay_a_list_under_their_lead_in() -> None:
    lines = [LONG.strip()] * 12 + ["Vous devez fournir :", "une copie du bail,", "et un timbre", LONG]
    parsed = parse("# T\n\n" + "\n".join(lines))
    assert [block.text for block in parsed.blocks if block.kind == "list"] == ["- une copie du bail,\n- et un timbre"]
    assert not any(block.headings for block in parsed.blocks)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (":arrow\\_right:L'envoi est gratuit.", "L'envoi est gratuit."),
        ("Fin.\\\n\nSuite.", "Fin.|Suite."),
        ("- **Bloc**\n  \\\n\nFin.", "- **Bloc**|Fin."),
        ("****\\\n****Pour cela", "Pour cela"),
        ("****En** **quelques étapes", "En quelques étapes"),
        ("**Important **: lisez. a **b** c **d** e", "**Important** : lisez. a **b** c **d** e"),
        (*2 * ("Carte **** **** 1234, mot de passe : ****, 2 ** 3 ** 4, 10:30:45, C:\\Users\\",),),
        ("\\*\\*Ouvert :\\*\\* 9 h, 5 \\* 3\n*[CCAS]: centre communal", "**Ouvert :** 9 h, 5 \\* 3"),
        ("> Réservé aux parents / tuteurs", "Réservé aux parents / tuteurs"),
    ],
)
def test_what_editors_leave_between_the_words_is_not_shown(written: str, read: str) -> None:
    assert "|".join(block.text for block in parse(f"# T\n\n{written}").blocks) == read


def test_lists_of_contents_are_not_read() -> None:
    linked = "## Sommaire\n\n- [Dossier](#1)\n- [Délai](#2)\n- [Recours](#3)\n\n"
    parts = "".join(f"## {at}. {name}\n\nDe {at}.\n\n" for at, name in enumerate(["Dossier", "Délai", "Recours"], 1))
    dotted = "Sommaire\n\nDossier ........ 2\nDélai ........ 3\nRecours ........\nCafé ........ 4\n\n"
    assert [block.text for block in parse(f"# T\n\n{linked}{parts}").blocks] == ["De 1.", "De 2.", "De 3."]
    read = parse_document((dotted + parts).encode(), filename="a.txt")
    assert read.notices == ("sommaire, laissé de côté : « Sommaire Dossier ........ 2 Délai ........ 3 »",)
    assert [block.text for block in read.blocks] == ["Recours ........", "Café ........ 4", "De 1.", "De 2.", "De 3."]


def test_line_behind_an_item_is_a_paragraph_where_lines_have_no_margin() -> None:
    parsed = parse(
        "# T\n\n- un\n- deux\nII. LES CONDITIONS\n" + f"{LONG}\n" * 12 + "- trois\n  suite\n- quatre\net la fin\n"
    )
    first, *_prose, last = parsed.blocks
    assert (first.text, last.text) == ("- un\n- deux", "- trois\n  suite\n- quatre\n  et la fin")
    assert last.headings == ("II. LES CONDITIONS",)
    assert parse("- un article qui va\nÀ la ligne\n").blocks[0].kind == "list"


def test_what_templates_print_and_components_of_many_lines_are_not_shown() -> None:
    source = (
        "Voyez [la page]({{ '/infoline' | relative_url }}).\n\n<JsonLd\n  data={{\n\n    name: \"x\",\n  }}\n/>\n\nFin."
    )
    assert [block.text for block in parse(source).blocks] == ["Voyez la page.", "Fin."]
    assert parse("Tapez `{{ nom }}` puis {{ nom }}.").blocks[0].text == "Tapez `{{ nom }}` puis {{ nom }}."
