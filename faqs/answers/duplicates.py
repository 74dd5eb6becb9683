"""Is there already a validated answer to this question? Looked up when staff save one or import some.

A stored phrasing that the second key takes for the same question is a duplicate where its answer is the same, and a
contradiction where it is another, whether it is served, waits for its points or is to be reviewed. Staff decide; nothing
here refuses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.models import Agent
from faqs.answers.neighbours import Waiting, near_answers, waiting_phrasings
from faqs.models import LearnedResponse, LearnedStatus
from knowledge.language.folding import same_writing
from knowledge.vectors.base import Vector

#: Questions looked at for one answer.
MAX_QUESTIONS = 10


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """An answer that exists already. `question`: the phrasing that asks the same; `score`: None for the same text."""

    kind: Literal["duplicate", "contradiction"]
    response: LearnedResponse
    question: str
    score: float | None


def find_similar(
    *,
    agent: Agent,
    questions: Sequence[str],
    answer: str,
    exclude: int | None = None,
    vectors: Sequence[Vector] | None = None,
    waiting: Waiting | None = None,
) -> list[SimilarAnswer]:
    """Return the agent's answers to any of these questions, contradictions first; `exclude` is the row being edited.

    `vectors` are those of the questions and `waiting` the agent's, where they are known. Raises the errors of the
    embedder and of the vector store.
    """
    asked = [question for question in questions if question][:MAX_QUESTIONS]
    waiting = waiting_phrasings(agent) if waiting is None else waiting
    near = near_answers(agent=agent, questions=asked, vectors=vectors, waiting=waiting)
    rows = (
        LearnedResponse.objects.filter(agent=agent)
        .exclude(status=LearnedStatus.OBSOLETE)
        .exclude(pk__in=[] if exclude is None else [exclude])
        .in_bulk({each.learned_id for each in near})
    )
    found: dict[int, SimilarAnswer] = {}
    for each in near:
        if each.learned_id in rows and each.learned_id not in found:
            row = rows[each.learned_id]
            kind: Literal["duplicate", "contradiction"]
            kind = "duplicate" if same_writing(row.answer, answer) else "contradiction"
            found[row.pk] = SimilarAnswer(kind, row, each.question, each.score)
    return sorted(found.values(), key=lambda each: each.kind)


def similar_text(similar: SimilarAnswer) -> SafeString:
    """« Doublon : … », with a link to the answer that exists."""
    from agents.admin_base import admin_url, rounded  # the admin's library, in staff's processes only

    row = similar.response
    if similar.kind == "duplicate":
        label = _("Doublon : la même réponse est déjà donnée à")
    else:
        label = _("Contradiction : une autre réponse est déjà donnée à")
    return format_html(
        '{} <a class="underline" href="{}">« {} »</a> ({}, {}).',
        label,
        admin_url(LearnedResponse, "change", row.pk),
        similar.question,
        row.get_status_display(),
        _("même texte") if similar.score is None else rounded(similar.score, 2),
    )
