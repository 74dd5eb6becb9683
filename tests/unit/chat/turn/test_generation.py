"""What vouches for an answer: the passages that it cites, or those that say each of its statements."""

from dataclasses import replace

import pytest

from agents.llm.base import Reply
from chat.turn.generation import Asked, attributed, defect
from knowledge.language.spelling import Vocabulary
from knowledge.language.typed import read_typed

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
        ("Les documents ne donnent pas le prix du stage d’été.", "Les documents ne donnent pas le prix du stage d’été."),
        ("Cela coûte 45 €. [2]", "Cela coûte 45 € [2]."),
        ("Selon l’art. [1] du code.", "Selon l’art. [1] du code."),
        ("Après le 1er juin.", "Après le 1er juin."),
        ("1. Le stage est ouvert de 6 à 12 ans [1].\n2. L’inscription coûte 45 €.", "1. Le stage est ouvert de 6 à 12 ans [1].\n2. L’inscription coûte 45 € [2]."),
        ("[1] Le stage est ouvert de 6 à 12 ans. [2] L’inscription coûte 45 €.", "[1] Le stage est ouvert de 6 à 12 ans. [2] L’inscription coûte 45 €."),
        ("Les frais sont remboursés après le 1er juin.", "Les frais sont remboursés après le 1er juin."),
        ("Aucun frais n’est remboursé après le 1er juin.", "Aucun frais n’est remboursé après le 1er juin [2]."),
        ("Voici les frais d’inscription au stage :", "Voici les frais d’inscription au stage :"),
        ("**L’inscription coûte 45 €.**", "**L’inscription coûte 45 € [2].**"),
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
        ("Il faut demander au directeur de la piscine municipale [1].", "unvouched"),
        ("Je ne sais pas : rien n’en est dit. Bonne journée !", ""),
        ("Le repas se prend à la cantine.", ""),
        ("Comptez en tout 45 €, frais compris.", ""),
        ("45 € [2].", "only_number"),
        ("À [1] et [2] [1] - Stages [2] - Tarifs", "only_header"),
        ("À la fin des stages [1].", ""),
        ("Le stage se prépare avec des rayons ultraviolets [1].", "unvouched"),
        ("Oui.", "unvouched"),
        ("```\nls -l\n```", ""),
        ("Rien n’en est dit. Mais le directeur accepte volontiers des espèces le mardi matin [2].", "unvouched"),
    ],
)
def test_answer_that_nothing_vouches_for_is_none(written: str, found: str) -> None:
    assert defect(Reply(text=written, model=""), written, ASKED) == found


def test_answer_of_few_words_has_them_from_what_it_cites_where_staff_are_strict() -> None:
    strict = replace(ASKED, is_strict=True)
    assert defect(Reply(text="", model=""), "À la fin des stages [1].", strict) == "unvouched"


@pytest.mark.parametrize(
    ("question", "written", "found"),
    [
        ("Le stage est-il ouvert aux enfants ?", "Oui, le stage est ouvert aux enfants [1].", ""),
        ("Le stage est-il ouvert aux enfants ?", "Non, le stage n’est pas ouvert aux enfants [1].", "echo"),
        ("Les frais sont-ils remboursés après le 1er juin ?", "Oui, les frais sont remboursés après le 1er juin [2].", "echo"),
        ("Les frais sont-ils remboursés après le 1er juin ?", "Non, les frais ne sont pas remboursés après le 1er juin [2].", ""),
        ("Faut-il un certificat médical pour le stage ?", "Oui, il faut un certificat médical pour le stage [2].", "echo"),
        ("Faut-il un certificat médical pour le stage ?", "Oui, un certificat médical d’aptitude au stage [2].", "unvouched"),
    ],
)  # fmt: skip
def test_answer_that_only_restates_its_question_is_none_unless_a_cited_sentence_says_it(
    question: str, written: str, found: str
) -> None:
    assert defect(Reply(text=written, model=""), written, Asked(question, "fr", True, SOURCES)) == found


@pytest.mark.parametrize(
    "typed",
    [
        "COMBIEN COÛTE LE STAGE ?",
        "Bonjour,\nCombien coûte le stage ?",
        "« Combien coûte le stage ? »",
        "1) Combien coûte le stage ?",
        "Bonjour Madame, combien coûte le stage SVP ?",
        "Ma fille Emma a 7 ans. Combien coûte le stage ?",
    ],
)
def test_right_answer_stays_however_its_question_is_typed(typed: str) -> None:
    read = read_typed(typed, Vocabulary())
    asked = replace(ASKED, question=typed, readings=[*read.others, read.text])
    assert defect(Reply(text="", model=""), "L’inscription au stage coûte 45 € [2].", asked) == ""


def test_name_of_a_question_stands_in_a_passage_in_one_of_its_forms() -> None:
    asked = replace(ASKED, question="Combien prend l’UCPA ?", readings=["Combien prend l’UCPA ?"])
    assert defect(Reply(text="", model=""), "L’inscription au stage coûte 45 € [2].", asked) == "unvouched"
    formed = replace(asked, readings=[*asked.readings, "Combien coûte le stage ?"])
    assert defect(Reply(text="", model=""), "L’inscription au stage coûte 45 € [2].", formed) == ""


def test_answer_in_another_language_than_its_passages_or_by_a_tool_is_not_compared() -> None:
    english = Asked("How much is the course?", "en", True, SOURCES)
    assert defect(Reply(text="", model=""), "You have to ask the head of the pool for it.", english) == ""
    assert defect(Reply(text="", model=""), "Il faut demander au directeur de la piscine.", ASKED, by_tool=True) == ""
