"""Validated answers as their rows say now: every hit is confirmed here before anything is served from it.

The text served is the row's, never the store's. An answer stands from the commit of its row on, whether its points are
written or not (`faqs.answers.precedence`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from faqs.answers.precedence import unsettled_answers
from faqs.models import LearnedKind, LearnedResponse, Phrasing, standing_condition
from faqs.second_key.agreement import ask_the_same
from knowledge.acronyms.readings import NO_FORMS, Forms
from knowledge.acronyms.stored import forms_of
from knowledge.search import ConfirmedAnswers, Passage, faq_passage


def confirm_learned(hits: Sequence[Passage], agent_id: int, question: str) -> ConfirmedAnswers:
    """The hits whose row answers now, with its text; a point that no longer says what its row says is no hit.

    Late are the answers to the question, by the second key, whose points may not be written yet.
    """
    by_point = _rows_of([hit.point_id for hit in hits], agent_id) if hits else {}
    unsettled = unsettled_answers(agent_id)
    forms = forms_of([agent_id]) if unsettled else NO_FORMS
    confirmed = []
    for hit in hits:
        row = by_point.get(hit.point_id)
        if row is not None and row.text == hit.question and not _is_older(row, unsettled, forms):
            confirmed.append(row.complete(hit))
    found = {hit.point_id for hit in confirmed}
    late = [
        hit
        for hit in _asking(question, unsettled, forms)
        if hit.point_id not in found and not _is_outdone(hit, confirmed, forms)
    ]
    return ConfirmedAnswers(confirmed, late)


class _Row(NamedTuple):
    """What a phrasing of a validated answer says now."""

    point: str
    text: str
    learned_id: int
    kind: str
    answer: str
    validated_at: datetime | None

    def as_hit(self, agent_id: int) -> Passage:
        """Its point as it will be found."""
        return faq_passage(agent_id=agent_id, point_id=self.point, question=self.text, answer=self.answer)

    def complete(self, hit: Passage) -> Passage:
        return replace(
            hit,
            content=self.answer,
            learned_id=self.learned_id,
            has_questions=True,
            is_courtesy=self.kind == LearnedKind.COURTESY,
            validated_at=self.validated_at.timestamp() if self.validated_at else 0.0,
        )


def _rows_of(point_ids: Sequence[str], agent_id: int) -> dict[str, _Row]:
    # Two plain queries rather than one union, which takes longer to compile than both.
    questions = (
        LearnedResponse.objects.standing()
        .filter(agent_id=agent_id, point_id__in=point_ids)
        .values_list("point_id", "question", "pk", "kind", "answer", "validated_at")
    )
    of_response = ("response_id", "response__kind", "response__answer", "response__validated_at")
    phrasings = Phrasing.objects.filter(
        standing_condition("response__"), point_id__in=point_ids, response__agent_id=agent_id
    ).values_list("point_id", "text", *of_response)
    rows = (*questions.order_by(), *phrasings.order_by())
    return {str(point): _Row(str(point), *said) for point, *said in rows}


def _is_older(row: _Row, unsettled: Sequence[LearnedResponse], forms: Forms) -> bool:
    """Whether a newer answer to the same, which has not withdrawn this one yet, stands over it."""
    return any(
        ask_the_same(text, row.text, forms)
        for answer in unsettled
        if answer.pk != row.learned_id and _is_newer(answer, row)
        for _point, text in answer.points()
    )


def _is_outdone(late: Passage, confirmed: Sequence[Passage], forms: Forms) -> bool:
    """Whether a newer answer to the same was found, whose points are written already."""
    return any(
        hit.validated_at > late.validated_at and ask_the_same(hit.question, late.question, forms)
        for hit in confirmed
        if hit.learned_id != late.learned_id
    )


def _is_newer(answer: LearnedResponse, row: _Row) -> bool:
    if answer.validated_at is None or row.kind != LearnedKind.FAQ:
        return False
    return row.validated_at is None or row.validated_at < answer.validated_at


def _asking(question: str, unsettled: Sequence[LearnedResponse], forms: Forms) -> Iterator[Passage]:
    for answer in unsettled if question else ():
        for point, text in answer.points():
            if ask_the_same(text, question, forms):
                row = _Row(point, text, answer.pk, answer.kind, answer.answer, answer.validated_at)
                yield row.complete(row.as_hit(answer.agent_id))
