"""Validated answers as their rows say now: every hit is confirmed here before anything is served from it.

The text served is the row's, never the store's. An answer is valid from the commit of its row on, whether its points
are written or not (`faqs.precedence`). Courtesies are found by their words, and first questions to ask are offered
where their answer is valid.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from django.utils.translation import get_language

from agents.cache import TtlCache
from agents.models import Deployment
from faqs.models import IndexState, LearnedKind, LearnedResponse, Phrasing, validity_condition
from faqs.precedence import unsettled_answers
from faqs.second_key.same_question import ask_the_same
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.language.words import fold, language_of, words
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.search import ConfirmedAnswers, Passage, faq_passage
from knowledge.synonyms import forms_of


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
    """The current row behind a phrasing of a validated answer."""

    point: str
    text: str
    learned_id: int
    kind: str
    answer: str
    validated_at: datetime | None

    def complete(self, hit: Passage) -> Passage:
        return replace(
            hit,
            content=self.answer,
            learned_id=self.learned_id,
            is_courtesy=self.kind == LearnedKind.COURTESY,
            validated_at=self.validated_at.timestamp() if self.validated_at else 0.0,
        )


def _rows_of(point_ids: Sequence[str], agent_id: int) -> dict[str, _Row]:
    # Two plain queries rather than one union, which takes longer to compile than both.
    questions = (
        LearnedResponse.objects.valid()
        .filter(agent_id=agent_id, point_id__in=point_ids)
        .values_list("point_id", "question", "pk", "kind", "answer", "validated_at")
    )
    of_response = ("response_id", "response__kind", "response__answer", "response__validated_at")
    phrasings = Phrasing.objects.filter(
        validity_condition("response__"), point_id__in=point_ids, response__agent_id=agent_id
    ).values_list("point_id", "text", *of_response)
    rows = (*questions.order_by(), *phrasings.order_by())
    return {str(point): _Row(str(point), *said) for point, *said in rows}


def _is_older(row: _Row, unsettled: Sequence[LearnedResponse], forms: Forms) -> bool:
    """Whether a newer answer to the same question exists that has not withdrawn this one yet."""
    if row.kind != LearnedKind.FAQ:
        return False
    return any(
        ask_the_same(text, row.text, forms)
        for answer in unsettled
        if answer.pk != row.learned_id and answer.validated_at is not None
        if row.validated_at is None or row.validated_at < answer.validated_at
        for _point, text in answer.points()
    )


def _is_outdone(late: Passage, confirmed: Sequence[Passage], forms: Forms) -> bool:
    """Whether the confirmed hits hold a newer answer to the same question."""
    return any(
        hit.validated_at > late.validated_at and ask_the_same(hit.question, late.question, forms)
        for hit in confirmed
        if hit.learned_id != late.learned_id
    )


def _asking(question: str, unsettled: Sequence[LearnedResponse], forms: Forms) -> Iterator[Passage]:
    for answer in unsettled if question else ():
        for point, text in answer.points():
            if ask_the_same(text, question, forms):
                row = _Row(point, text, answer.pk, answer.kind, answer.answer, answer.validated_at)
                as_found = faq_passage(agent_id=answer.agent_id, point_id=point, question=text, answer=answer.answer)
                yield row.complete(as_found)


class StaffReply(NamedTuple):
    learned_id: int
    text: str


def staff_reply(agent_ids: Collection[int], said: str) -> StaffReply | None:
    """The newest valid courtesy of these agents in the same words, case, accents and signs apart. One query, or two."""
    asked = words(fold(said))
    rows = LearnedResponse.objects.valid().filter(agent_id__in=agent_ids, kind=LearnedKind.COURTESY)
    for row in rows.order_by("-validated_at", "-pk").prefetch_related("phrasings"):
        if any(words(fold(text)) == asked for _point, text in row.points()):
            return StaffReply(row.pk, row.answer)
    return None


#: Two lines of a button on a phone.
MOST_CHARACTERS = 100
#: So many validated answers are looked at, so many documents, and of each the first passages.
_ANSWERS, _DOCUMENTS, _PASSAGES = 60, 30, 10


def starter_questions(deployment: Deployment, most: int) -> list[str]:
    """At most `most` questions to start with, the reader's language first; staff's list replaces all others."""
    language = get_language() or ""
    lines = [line.strip() for line in deployment.suggestions.splitlines() if line.strip()]
    if lines:
        return sorted(lines, key=lambda line: language_of(line) not in ("", language))[:most]
    key = (deployment.pk, language)
    return _cached.get(lambda: _of_content(deployment, language), key)[:most]


#: A burst of visitors reads them once.
_cached: TtlCache[list[str]] = TtlCache("CONFIG_CACHE_SECONDS")


def _of_content(deployment: Deployment, language: str) -> list[str]:
    """Validated answers first, then the first question of each document, and the next of each."""
    agents = {deployment.agent_id, *deployment.specialists.values_list("agent", flat=True)}
    answers = LearnedResponse.objects.valid().filter(
        agent__in=agents, kind=LearnedKind.FAQ, index_state=IndexState.INDEXED
    )
    newest = answers.order_by("-validated_at", "-pk").values_list("question", flat=True)[:_ANSWERS]
    indexed = Document.objects.filter(agent__in=agents, enabled=True, status=DocumentStatus.INDEXED)
    documents = list(indexed.order_by("-indexed_at", "pk").values_list("pk", flat=True)[:_DOCUMENTS])
    first = Chunk.objects.served().filter(document__in=documents, index__lt=_PASSAGES).exclude(knowledge_units=[])
    units = first.order_by("index", "document").values_list("knowledge_units", flat=True)
    questions = dict.fromkeys([*newest, *(each[0]["question"] for each in units)])
    found = [each for each in questions if len(each) <= MOST_CHARACTERS]
    return [each for each in found if language_of(each) in ("", language)] or found
