"""Questions and answers found in documents without a model, and questions that are none."""

import pytest
from pytest_django.fixtures import Settings

from knowledge.qa_extraction import extract_questions
from knowledge.readers.base import Block
from knowledge.readers.registry import parse_document


def found(text: str, filename: str = "faq.md") -> list[tuple[str, str]]:
    blocks = extract_questions(parse_document(text.encode(), filename=filename).blocks)
    return [(block.question, block.text) for block in blocks if block.kind == "qa"]


def test_headings_that_ask_are_questions() -> None:
    text = "# FAQ\n\n## Quel est le délai ?\n\nUn mois.\n\n- ou deux\n\n## Contact\n\nLa mairie."
    assert found(text) == [("Quel est le délai ?", "Un mois.\n\n- ou deux")]


def test_answer_keeps_the_headings_below_it() -> None:
    text = "# FAQ\n\n## Qui peut voter ?\n\n### Français\n\nOui.\n\n### Autres\n\nNon."
    assert found(text) == [("Qui peut voter ?", "**Français**\n\nOui.\n\n**Autres**\n\nNon.")]


def test_chapter_that_asks_leaves_the_word_to_its_questions() -> None:
    text = "# FAQ\n\n## Des questions ?\n\nVoici.\n\n### Quel prix ?\n\nDix euros."
    assert found(text) == [("Quel prix ?", "Dix euros.")]


def test_section_too_long_for_an_answer_stays_text(settings: Settings) -> None:
    settings.QA_MAX_ANSWER_CHARACTERS = 20
    assert found("# FAQ\n\n## Quel est le délai ?\n\nUn mois, ou deux, ou trois.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Q: Quel prix ?\nR: Dix euros.\nQ: Où ?\nR: Ici.",
        "Q : Quel prix ?\n\nR : Dix euros.\n\nQ : Où ?\n\nR : Ici.",
        "Question : Quel prix ?\nRéponse : Dix euros.\n\nQuestion : Où ?\nRéponse : Ici.",
        "**Q1.** Quel prix ?\n\n**A1.** Dix euros.\n\n**Q2.** Où ?\n\n**A2.** Ici.",
        "Question: Quel prix ?\nAnswer: Dix euros.\nQuestion: Où ?\nAnswer: Ici.",
    ],
)
@pytest.mark.parametrize("filename", ["faq.md", "faq.txt"])
def test_marked_lines_are_questions_and_answers(text: str, filename: str) -> None:
    assert found(text, filename) == [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]


def test_marked_answer_may_have_paragraphs_and_lists() -> None:
    text = "Q : Que fournir\n\nR : Il faut :\n\n- un bail\n- un timbre\n\nMerci."
    assert found(text) == [("Que fournir", "Il faut :\n\n- un bail\n- un timbre\n\nMerci.")]


def test_mark_without_answer_stays_text() -> None:
    assert found("Q: Quel prix ?\n\n# Suite\n\nTexte.") == []


def test_bold_questions_take_what_follows() -> None:
    text = "**Quel prix ?**\n\nDix euros.\n\n**Où ?**\n\nIci.\n\n**Note**\n\nTexte."
    assert found(text) == [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]


def test_table_of_questions_and_answers_is_read() -> None:
    text = "| Question | Réponse |\n|---|---|\n| Quel prix ? | Dix euros. |\n| Où ? | Ici. |"
    assert found(text) == [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]


def test_table_of_data_stays_a_table() -> None:
    assert found("| Ville | Prix |\n|---|---|\n| Lille | 10 |\n| Lens | 12 |") == []


def test_question_inside_prose_is_not_a_unit() -> None:
    text = "# T\n\nPourquoi attendre ? Parce que le délai court.\n\nEt qui paie ?\n\nPersonne ne sait."
    assert found(text) == []


def test_guessed_heading_that_asks_is_not_a_unit() -> None:
    block = Block("Le locataire.", ("Qui est concerné ?",), inferred=1)
    assert extract_questions([block]) == [block]


def test_question_without_subject_takes_the_title() -> None:
    blocks = [Block("Le locataire.", ("Qui est concerné ?",))]
    (pair,) = extract_questions(blocks, title="Préavis")
    assert (pair.question, pair.text) == ("Préavis : qui est concerné ?", "Le locataire.")
