"""Questions and answers found in documents without a model, and questions that are none."""

import pytest
from pytest_django.fixtures import Settings

from knowledge.qa_extraction import extract_questions
from knowledge.readers.base import Block
from knowledge.readers.registry import parse_document


def found(text: str, filename: str = "faq.md") -> list[tuple[str, str]]:
    blocks = extract_questions(parse_document(text.encode(), filename=filename).blocks)
    return [(block.question, block.text) for block in blocks if block.kind == "qa"]


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("# FAQ\n\n## Quel délai ?\n\nUn mois.\n\n- ou deux\n\n## Contact\n\nLa mairie.", [("Quel délai ?", "Un mois.\n\n- ou deux")]),
        ("# FAQ\n\n## Qui vote ?\n\n### Ici\n\nOui.\n\n### Ailleurs\n\nNon.", [("Qui vote ?", "**Ici**\n\nOui.\n\n**Ailleurs**\n\nNon.")]),
        # A chapter that asks leaves the word to its questions.
        ("# FAQ\n\n## Des questions ?\n\nVoici.\n\n### Quel prix ?\n\nDix euros.", [("Quel prix ?", "Dix euros.")]),
        ("# FAQ\n\n#### Q: Quel prix ?\n\n**R :** Dix euros.\n\nAu plus.", [("Quel prix ?", "Dix euros.\n\nAu plus.")]),
        ("Q : Que fournir\n\nR : Il faut :\n\n- un bail\n- un timbre\n\nMerci.", [("Que fournir", "Il faut :\n\n- un bail\n- un timbre\n\nMerci.")]),
        ("**Quel prix ?**\n\nDix euros.\n\n**Où ?**\n\nIci.\n\n**Note**\n\nTexte.", [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]),
        ("| Question | Réponse |\n|---|---|\n| Quel prix ? | Dix euros. |\n| Où ? | Ici. |", [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]),
        # A mark without an answer, a table of data, a question inside prose.
        ("Q: Quel prix ?\n\n# Suite\n\nTexte.", []),
        ("| Ville | Prix |\n|---|---|\n| Lille | 10 |\n| Lens | 12 |", []),
        ("# T\n\nPourquoi attendre ? Parce que le délai court.\n\nEt qui paie ?\n\nPersonne ne sait.", []),
    ],
)  # fmt: skip
def test_what_asks_and_is_answered_is_a_question(text: str, questions: list[tuple[str, str]]) -> None:
    assert found(text) == questions


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
        "Q1 – Quel prix ?\n\nR1 – Dix euros.\n\nQ2 – Où ?\n\nR2 – Ici.",
        "Question: Quel prix ?\nAnswer: Dix euros.\nQuestion: Où ?\nAnswer: Ici.",
    ],
)
@pytest.mark.parametrize("filename", ["faq.md", "faq.txt"])
def test_marked_lines_are_questions_and_answers(text: str, filename: str) -> None:
    assert found(text, filename) == [("Quel prix ?", "Dix euros."), ("Où ?", "Ici.")]


def test_question_without_subject_takes_the_title() -> None:
    blocks = [Block("Le locataire.", ("Qui est concerné ?",))]
    (pair,) = extract_questions(blocks, title="Préavis")
    assert (pair.question, pair.text) == ("Préavis : qui est concerné ?", "Le locataire.")
