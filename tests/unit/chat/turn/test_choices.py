"""Which stored questions may be offered, which answer is given directly, and which agent answers."""

import uuid
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.dispatch import Margins, choose_agent, description_lines, nearness
from chat.turn.stored_answers import FIRST_PASSAGES, REFUSAL_OFFER, _asking, none_was_meant, options_for, was_offered
from chat.turn.values import Exchange
from knowledge.search import Passage, SearchResult, Thresholds
from knowledge.vectors.payloads import PointType
from tests.factories import make_passage

ASKED = "Comment accéder au dossier ?"
THRESHOLDS = Thresholds(direct_answer=0.75, guard_rail=0.0, guard_rail_questions=0.0)


def hit(question: str, score: float, answer: str = "", **changes: Any) -> Passage:
    facts: dict[str, Any] = {"type": PointType.QA_PAIR, "question": question, "score": score, "relevance": score}
    return make_passage(answer or f"Réponse à {question}", **{**facts, "chunk_id": None, **changes})


def offered(*hits: Passage, asked: str = ASKED, margin: float = 0.125) -> list[str]:
    found = SearchResult(tuple(sorted(hits, key=lambda each: -each.relevance)))
    options = options_for(asked, found, thresholds=THRESHOLDS, band=0.25, margin=margin)
    return [option.question for option in options]


MEDICAL, POLICE = "Comment accéder au dossier médical ?", "Comment accéder au dossier scolaire ?"


def test_two_close_questions_with_different_answers_are_offered_best_first() -> None:
    assert offered(hit(POLICE, 0.5), hit(MEDICAL, 0.625)) == [MEDICAL, POLICE]


@pytest.mark.parametrize(
    "other",
    [
        hit(POLICE, 0.49),
        hit(POLICE, 0.625, answer=f"Réponse à {MEDICAL}"),
        hit("Pourquoi ne pas accéder au dossier ?", 0.625),
        hit(POLICE, 0.625, type=PointType.SOURCE_MATERIAL),
    ],
)
def test_nothing_is_asked_where_only_one_may_be_offered(other: Passage) -> None:
    assert offered(hit(MEDICAL, 0.6), other) == []


def test_a_precision_that_is_left_open_may_be_offered_and_another_never() -> None:
    of_2023, of_2024 = (f"Comment accéder au dossier de {year} ?" for year in (2023, 2024))
    assert offered(hit(of_2023, 0.6), hit(of_2024, 0.6)) == [of_2023, of_2024]
    assert offered(hit(of_2023, 0.6), hit(MEDICAL, 0.6), asked=of_2024) == []


def test_answers_that_differ_in_a_sign_are_two() -> None:
    older, younger = (hit(MEDICAL, 0.6, "≥ 18 ans : gratuit."), hit(POLICE, 0.6, "≤ 18 ans : gratuit"))
    assert len(offered(older, younger)) == 2
    assert offered(older, replace(younger, content="« ≥ 18 ans » : gratuit")) == []


def test_the_same_words_are_offered_once_and_are_no_choice_alone() -> None:
    twice = (hit(MEDICAL, 0.6, answer="Ici."), hit(f"{MEDICAL[:-2]}?", 0.6, answer="Là."))
    assert offered(*twice) == []
    assert offered(*twice, hit(POLICE, 0.6)) == [MEDICAL, POLICE]


def test_nothing_is_offered_where_search_prefers_another_passage_or_has_it_late() -> None:
    text = hit("", 0.9, answer="Un passage.", type=PointType.SOURCE_MATERIAL)
    assert offered(hit(MEDICAL, 0.6), hit(POLICE, 0.6)) == [MEDICAL, POLICE]
    assert offered(text, hit(MEDICAL, 0.6), hit(POLICE, 0.6)) == []
    between = [hit("", 0.61, answer=f"Passage {at}.", type=PointType.SOURCE_MATERIAL) for at in range(2)]
    assert offered(hit(MEDICAL, 0.62), *between[:1], hit(POLICE, 0.6)) == [MEDICAL, POLICE]
    assert offered(hit(MEDICAL, 0.62), *between, hit(POLICE, 0.6)) == []


def test_another_language_is_not_offered() -> None:
    asked = "Comment avoir accès à mon dossier ?"
    english = hit("How do I access my medical record?", 0.6)
    assert offered(hit(MEDICAL, 0.6), english, asked=asked) == []


def test_twins_are_offered_once() -> None:
    one = hit("Quel est le prix du dossier médical ?", 0.6, answer="Six euros.")
    same_answer = hit("Combien coûte le dossier de santé ?", 0.6, answer="six euros")
    same_question = hit("Combien coûte le dossier médical ?", 0.6, answer="6 €, à l’accueil.")
    for twin in (same_answer, same_question):
        assert offered(one, twin, asked="Prix du dossier ?") == []


@given(st.lists(st.floats(0, 1, width=16), max_size=12))
def test_two_to_three_are_offered_or_none(scores: list[float]) -> None:
    hits = [hit(f"{ASKED[:-2]} {chr(97 + at) * 6} ?", score) for at, score in enumerate(scores)]
    options = offered(*hits)
    assert len(options) in (0, *range(2, FIRST_PASSAGES + 1))
    assert len(set(options)) == len(options)


@pytest.mark.parametrize("language", ["fr", "en"])
def test_a_choice_is_known_in_either_language_and_nothing_else_is(language: str) -> None:
    with translation.override(language):
        text = _asking([hit(MEDICAL, 0.6), hit(POLICE, 0.6)])
    history = [Exchange(uuid.uuid4(), ASKED, text)]
    assert was_offered(POLICE, history)
    assert not was_offered("Autre chose ?", history)
    assert not was_offered(POLICE, [])
    assert not was_offered(POLICE, [Exchange(uuid.uuid4(), ASKED, f"Voici :\n- {POLICE}")])
    refusal = f"Je n’ai rien trouvé à ce sujet.\n\n{REFUSAL_OFFER}\n\n- {POLICE}"
    assert was_offered(POLICE, [Exchange(uuid.uuid4(), ASKED, refusal)])


@pytest.mark.parametrize("language", ["fr", "en"])
def test_declining_is_known_by_its_button_and_by_a_word(language: str) -> None:
    with translation.override(language):
        text = _asking([hit(MEDICAL, 0.6), hit(POLICE, 0.6)])
    history = [Exchange(uuid.uuid4(), ASKED, text)]
    button = text.split("\n")[-1].removeprefix("- ")
    for said in (button, "Aucune !", "none of these", "NON"):
        assert none_was_meant(said, history), said
    assert not none_was_meant(MEDICAL, history)
    assert not none_was_meant("Aucune idée, et vous ?", history)
    assert not none_was_meant(button, [Exchange(uuid.uuid4(), ASKED, "Voici.")])
    assert not none_was_meant(button, [])


MARGINS = Margins(index=0.125, description=0.25)
scores = st.lists(st.floats(-1, 2, width=32), min_size=2, max_size=6)


@pytest.mark.parametrize(
    ("relevance", "near", "position", "by"),
    [
        ([0.5, 0.625], [0.9, 0.1], 1, "index"),
        ([0.5, 0.6], [0.25, 0.0], 0, "description"),
        ([0.5, 0.6], [0.2, 0.4], 0, "default"),
        # Indexes that hold nothing are no sign.
        ([-0.5, 0.0], [0.0, 0.5], 1, "description"),
    ],
)
def test_the_index_decides_by_its_margin_then_the_description_else_the_default_agent_answers(
    relevance: list[float], near: list[float], position: int, by: str
) -> None:
    choice = choose_agent(relevance, near, MARGINS)
    assert (choice.position, choice.by) == (position, by)


@given(scores)
def test_an_agent_other_than_the_default_leads_by_a_margin(relevance: list[float]) -> None:
    choice = choose_agent(relevance, [0.0] * len(relevance), MARGINS)
    if choice.position:
        others = [score for at, score in enumerate(relevance) if at != choice.position]
        assert relevance[choice.position] - max(others) >= MARGINS.index


def test_agent_is_as_near_as_its_nearest_line() -> None:
    rows = [np.array([[1, 0], [0, 1]], dtype=np.float32), np.array([[0.6, 0.8]], dtype=np.float32)]
    assert nearness(np.array([0, 1], dtype=np.float32), rows) == [1.0, np.float32(0.8)]


def test_description_is_read_line_by_line_and_a_missing_one_is_the_name() -> None:
    assert description_lines("CNIL", "- Cookies\n\n* Fichiers") == ("Cookies", "Fichiers")
    assert description_lines("CNIL", " \n") == ("CNIL",)
