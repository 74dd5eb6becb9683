"""Is there already a validated answer to this question? Looked up when staff save one.

A neighbour by vector that the second key takes for the same question, or the very same text, is a duplicate when it
gives the same answer and a contradiction when it gives another. Staff decide; nothing here refuses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.admin_base import admin_url, rounded
from agents.models import Agent
from faqs.indexing import LEARNED_COLLECTION
from faqs.memory.keys import normalised_question
from faqs.models import LearnedResponse, LearnedStatus, Phrasing
from faqs.second_key.agreement import compare_questions
from knowledge.calibration.profiles import threshold_profile
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.points import agent_points
from knowledge.language.folding import same_writing
from knowledge.vectors.base import Query, Wanted, vector_store

#: Neighbours looked at for each question, and questions looked at for one answer.
NEIGHBOURS = 10
MAX_QUESTIONS = 10


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """An answer that exists already. `question`: the phrasing that asks the same; `score`: None for the same text."""

    kind: Literal["duplicate", "contradiction"]
    response: LearnedResponse
    question: str
    score: float | None


def find_similar(
    *, agent: Agent, questions: Sequence[str], answer: str, exclude: int | None = None
) -> list[SimilarAnswer]:
    """The agent's answers to any of these questions, contradictions first; `exclude` is the row being edited.

    Raises the errors of the embedder and of the vector store.
    """
    asked = [question for question in questions if question][:MAX_QUESTIONS]
    points = _same_text(agent, asked)
    if asked:
        points |= _near(agent, asked)
    rows = (
        LearnedResponse.objects.filter(agent=agent)
        .exclude(status=LearnedStatus.OBSOLETE)
        .exclude(pk__in=[] if exclude is None else [exclude])
        .in_bulk({learned for learned, _question in points})
    )
    found: dict[int, SimilarAnswer] = {}
    for (learned, question), score in points.items():
        if learned in rows:
            kind = _kind(rows[learned], answer)
            found.setdefault(learned, SimilarAnswer(kind, rows[learned], question, score))
    return sorted(found.values(), key=lambda each: each.kind)


def similar_text(similar: SimilarAnswer) -> SafeString:
    """« Doublon : … », with a link to the answer that exists."""
    row = similar.response
    label = (
        _("Doublon : la même réponse est déjà donnée à")
        if similar.kind == "duplicate"
        else _("Contradiction : une autre réponse est déjà donnée à")
    )
    closeness = _("même texte") if similar.score is None else f"{rounded(similar.score, 2)}"
    return format_html(
        '{} <a class="underline" href="{}">« {} »</a> ({}, {}).',
        label,
        admin_url(LearnedResponse, "change", row.pk),
        similar.question,
        row.get_status_display(),
        closeness,
    )


def _kind(row: LearnedResponse, answer: str) -> Literal["duplicate", "contradiction"]:
    return "duplicate" if same_writing(row.answer, answer) else "contradiction"


def _same_text(agent: Agent, asked: Sequence[str]) -> dict[tuple[int, str], float | None]:
    """Rows with the same text, also those that are not indexed."""
    keys = [normalised_question(question) for question in asked]
    rows = LearnedResponse.objects.filter(agent=agent, question_key__in=keys)
    return dict.fromkeys(rows.values_list("pk", "question"), None)


def _near(agent: Agent, asked: Sequence[str]) -> dict[tuple[int, str], float | None]:
    """Indexed phrasings that are near and ask for the same thing."""
    store, model = vector_store(), embedder()
    if store.resolve_alias(LEARNED_COLLECTION) is None:
        return {}
    profile = threshold_profile(model.recipe.model)
    wanted = Wanted(
        limit=NEIGHBOURS,
        payload_filter=agent_points(agent.pk),
        min_score=profile.memory if profile else None,
    )
    scores: dict[str, float] = {}
    for question, vector in zip(asked, model.embed(asked, purpose=Purpose.QUERY), strict=True):
        for hit in store.query(LEARNED_COLLECTION, Query(vector, model.recipe), wanted):
            stored = str(hit.payload.get("question", ""))
            if compare_questions(stored, question).agrees:
                scores[hit.id] = max(hit.score, scores.get(hit.id, -1.0))
    return {(learned, text): scores[str(point)] for point, text, learned in _owners(list(scores))}


def _owners(ids: list[str]) -> list[tuple[object, str, int]]:
    mains = LearnedResponse.objects.filter(point_id__in=ids)
    others = Phrasing.objects.filter(point_id__in=ids)
    return [
        *mains.values_list("point_id", "question", "pk"),
        *others.values_list("point_id", "text", "response_id"),
    ]
