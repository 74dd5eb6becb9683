"""Which stored questions may be offered, and how a choice is known."""

import uuid
from dataclasses import replace

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.clarification import MOST_OPTIONS, _asking, options_for, was_offered
from chat.turn.values import Exchange
from knowledge.search import Passage, SearchResult
from knowledge.vectors.payloads import PointType

ASKED = "Comment accéder au dossier ?"


def hit(question: str, score: float, answer: str = "", **changes: object) -> Passage:
    passage = Passage(
        point_id=str(uuid.uuid4()),
        type=PointType.QA_PAIR,
        content=answer or f"Réponse à {question}",
        question=question,
        score=score,
        title="",
        parent_context="",
        category="",
        summary="",
        document_id=1,
        chunk_id=None,
    )
    return replace(passage, **changes)  # type: ignore[arg-type]


def offered(*hits: Passage, asked: str = ASKED, margin: float = 0.125) -> list[str]:
    found = SearchResult(hits)
    options = options_for(asked, found, threshold=0.75, band=0.25, margin=margin)
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
    """Under the band; the same answer; a negation; a passage."""
    assert offered(hit(MEDICAL, 0.6), other) == []


def test_a_precision_that_is_left_open_may_be_offered_and_another_never() -> None:
    of_2023, of_2024 = (f"Comment accéder au dossier de {year} ?" for year in (2023, 2024))
    assert offered(hit(of_2023, 0.6), hit(of_2024, 0.6)) == [of_2023, of_2024]
    assert offered(hit(of_2023, 0.6), hit(MEDICAL, 0.6), asked=of_2024) == []


def test_a_question_further_behind_than_the_margin_is_not_offered() -> None:
    assert offered(hit(MEDICAL, 0.7), hit(POLICE, 0.5)) == []


def test_the_same_words_are_offered_once_and_are_no_choice_alone() -> None:
    twice = (hit(MEDICAL, 0.6, answer="Ici."), hit(f"{MEDICAL[:-2]}?", 0.6, answer="Là."))
    assert offered(*twice) == []
    assert offered(*twice, hit(POLICE, 0.6)) == [MEDICAL, POLICE]


@given(st.lists(st.floats(0, 1, width=16), max_size=12))
def test_two_to_four_are_offered_or_none(scores: list[float]) -> None:
    hits = [hit(f"{ASKED[:-2]} {chr(97 + at) * 6} ?", score) for at, score in enumerate(scores)]
    options = offered(*hits)
    assert len(options) in (0, *range(2, MOST_OPTIONS + 1))
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
