"""What vouches for an answer: the passages that it cites, or those that say each of its statements."""

import pytest

from agents.llm.base import Reply
from chat.turn.generation import Asked, attributed, defect

SOURCES = [
    {"n": 1, "title": "Stages", "text": "Le stage d’été est ouvert aux enfants de 6 à 12 ans."},
    {
        "n": 2,
        "title": "Tarifs",
        "text": "L’inscription au stage coûte 45 €. Aucun frais n’est remboursé après le 1er juin.",
    },
]
ASKED = Asked(
    "Combien coûte le stage ?", "fr", True, SOURCES, "Et le midi ?", "Le repas se prend à la cantine de l’école."
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("L’inscription coûte 45 €.", "L’inscription coûte 45 € [2]."),
        ("Le stage est ouvert de 6 à 12 ans !\n\n- L’inscription coûte 45 €", "Le stage est ouvert de 6 à 12 ans [1] !\n\n- L’inscription coûte 45 € [2]"),
        ("L’inscription au stage coûte 54 €.", "L’inscription au stage coûte 54 €."),
        ("Il faut demander au directeur de la piscine.", "Il faut demander au directeur de la piscine."),
        ("Le stage coûte 45 € [1].", "Le stage coûte 45 € [1]."),
        ("| Inscription au stage | coûte 45 € |", "| Inscription au stage | coûte 45 € |"),
    ],
)  # fmt: skip
def test_statement_that_a_passage_says_cites_it_where_the_answer_cites_nothing(written: str, shown: str) -> None:
    assert attributed(written, ASKED) == shown


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("L’inscription coûte 45 € [2].", ""),
        ("Il faut demander au directeur de la piscine.", "unvouched"),
        ("Il faut demander au directeur de la piscine municipale [2].", "unvouched"),
        ("Je ne sais pas : rien n’en est dit.", ""),
        ("Le repas se prend à la cantine.", ""),
        ("45 € [2].", "only_number"),
        ("Oui [1].", ""),
        ("Oui, le stage coûte combien.", "echo"),
    ],
)
def test_answer_that_nothing_vouches_for_is_none(written: str, found: str) -> None:
    assert defect(Reply(text=written, model=""), written, ASKED) == found


def test_answer_in_another_language_than_its_passages_or_by_a_tool_is_not_compared() -> None:
    english = Asked("How much is the course?", "en", True, SOURCES)
    assert defect(Reply(text="", model=""), "You have to ask the head of the pool for it.", english) == ""
    assert defect(Reply(text="", model=""), "Il faut demander au directeur de la piscine.", ASKED, by_tool=True) == ""
