"""How many candidates of a direct answer are compared: none that could not be given any more."""

from types import SimpleNamespace
from typing import Any, cast

from chat.turn.memory import _decisions
from chat.turn.values import TurnInProgress
from knowledge.acronyms import NO_FORMS
from knowledge.vectors.payloads import Passage, PointType

QUESTION = "Comment ouvrir un compte ?"


def _turn() -> TurnInProgress:
    turn = SimpleNamespace(context=SimpleNamespace(forms=NO_FORMS), asked=SimpleNamespace(text=QUESTION))
    return cast(TurnInProgress, turn)


def _candidate(question: str, score: float, **facts: Any) -> Passage:
    found = Passage(question, PointType.QA_PAIR, score, "Au guichet.", question, "", "", "", "", 1, 1)
    return found.with_values(**facts)


def _compared(*candidates: Passage) -> list[tuple[str, bool]]:
    return [(passage.point_id, decision.served) for passage, decision in _decisions(_turn(), candidates, 0.8)]


def test_behind_the_question_itself_no_other_of_a_document_is_compared() -> None:
    other = _candidate("Comment fermer un compte ?", 0.9)
    assert _compared(_candidate(QUESTION, 1.0), other) == [(QUESTION, True)]


def test_a_validated_answer_behind_it_is() -> None:
    validated = _candidate("Comment ouvrir un compte", 0.99, is_faq=True, validated_at=1.0)
    found = _compared(_candidate(QUESTION, 1.0), validated)
    assert found == [(QUESTION, True), (validated.point_id, True)]


def test_all_are_where_none_may_be_given() -> None:
    others = [_candidate(f"Comment fermer {n} comptes ?", 0.9) for n in (2, 3)]
    assert [served for _id, served in _compared(*others)] == [False, False]
