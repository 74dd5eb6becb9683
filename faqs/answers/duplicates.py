"""Is there already a validated answer to this question? Looked up when staff save one.

A neighbour by vector that the second key takes for the same question, or the very same text, is a duplicate when it
gives the same answer and a contradiction when it gives another. A neighbour that only could be asked in the same
situation is a contradiction where the two answers clash (`faqs.contradiction`). Staff decide; nothing here refuses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents.errors import ApplicationError
from agents.models import Agent
from faqs.answers.neighbours import near_phrasings
from faqs.answers.precedence import near_entries
from faqs.contradiction.clash import Clash
from faqs.contradiction.warning import warning_about
from faqs.memory.keys import normalised_question
from faqs.models import CachedResponse, LearnedResponse, LearnedStatus
from faqs.second_key.agreement import ask_the_same
from knowledge.acronyms.stored import forms_of
from knowledge.calibration.profiles import threshold_profile
from knowledge.embeddings.base import embedder
from knowledge.language.folding import same_writing
from knowledge.vectors.base import Vector

#: Questions looked at for one answer.
MAX_QUESTIONS = 10


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """An answer that exists already. `question`: the phrasing that is near; `score`: None for the same text.

    `asks_the_same`: by the second key; else both questions only could be asked in one situation, and a warning is
    advice.
    """

    kind: Literal["duplicate", "contradiction"]
    response: LearnedResponse
    question: str
    score: float | None
    asks_the_same: bool = True
    clashes: tuple[Clash, ...] = ()


class _Near(NamedTuple):
    """A phrasing of a stored answer, with the question that it is near to."""

    learned_id: int
    stored: str
    asked: str
    score: float | None
    asks_the_same: bool


def find_similar(
    *,
    agent: Agent,
    questions: Sequence[str],
    answer: str,
    exclude: int | None = None,
    vectors: Sequence[Vector] | None = None,
) -> list[SimilarAnswer]:
    """The agent's answers to any of these questions, contradictions first; `exclude` is the row being edited.

    `vectors` are those of the questions, where they are known. Raises the errors of the embedder and of the vector
    store.
    """
    asked = [question for question in questions if question][:MAX_QUESTIONS]
    near = [*_same_text(agent, asked), *_near(agent, asked, vectors)]
    rows = (
        LearnedResponse.objects.filter(agent=agent)
        .exclude(status=LearnedStatus.OBSOLETE)
        .exclude(pk__in=[] if exclude is None else [exclude])
        .in_bulk({each.learned_id for each in near})
    )
    found: dict[int, SimilarAnswer] = {}
    for each in sorted(near, key=lambda each: not each.asks_the_same):
        if each.learned_id in rows and each.learned_id not in found:
            if similar := _compare(each, rows[each.learned_id], answer):
                found[each.learned_id] = similar
    return sorted(found.values(), key=lambda each: (not each.asks_the_same, each.kind))


def find_same(
    *, agent: Agent, questions: Sequence[str], answer: str, exclude: int | None = None
) -> list[SimilarAnswer]:
    """Those of `find_similar` that the second key takes for the same question."""
    found = find_similar(agent=agent, questions=questions, answer=answer, exclude=exclude)
    return [each for each in found if each.asks_the_same]


def similar_text(similar: SimilarAnswer) -> SafeString:
    """« Doublon : … », with a link to the answer that exists and what clashes."""
    from agents.admin_base import admin_url, rounded  # the admin's library, in staff's processes only

    row = similar.response
    if similar.kind == "duplicate":
        label = _("Doublon : la même réponse est déjà donnée à")
    elif similar.asks_the_same:
        label = _("Contradiction : une autre réponse est déjà donnée à")
    else:
        label = _("Contradiction possible avec la réponse donnée à")
    closeness = _("même texte") if similar.score is None else f"{rounded(similar.score, 2)}"
    return format_html(
        '{} <a class="underline" href="{}">« {} »</a> ({}, {}){}.',
        label,
        admin_url(LearnedResponse, "change", row.pk),
        similar.question,
        row.get_status_display(),
        closeness,
        "".join(f" ; {clash}" for clash in similar.clashes),
    )


def near_memory_texts(agent: Agent, questions: Sequence[str], answer: str) -> list[SafeString]:
    """What the memory goes on giving to questions near these, in other words than the second key takes for the same:
    advice.

    Nothing where the embedder or the vector store cannot be asked.
    """
    from agents.admin_base import admin_url  # as above

    try:
        near = near_entries(agent, questions[:MAX_QUESTIONS])
    except ApplicationError:
        return []
    return [
        format_html(
            '{} <a class="underline" href="{}">« {} »</a> ({}).',
            _("La mémoire répond autrement à une question voisine ; relisez-la :"),
            admin_url(CachedResponse, "change", entry.pk),
            entry.question,
            entry.deployment,
        )
        for entry in near
        if not same_writing(entry.answer, answer)
    ]


def _compare(near: _Near, row: LearnedResponse, answer: str) -> SimilarAnswer | None:
    stored, new = (near.stored, row.answer), (near.asked, answer)
    told = warning_about(stored, new, asks_the_same=near.asks_the_same)
    if told is None:
        return None
    return SimilarAnswer(told.kind, row, near.stored, near.score, near.asks_the_same, told.clashes)


def _same_text(agent: Agent, asked: Sequence[str]) -> list[_Near]:
    """Rows with the same text, also those that are not indexed."""
    keys = {normalised_question(question): question for question in asked}
    rows = LearnedResponse.objects.filter(agent=agent, question_key__in=keys)
    found = rows.values_list("pk", "question", "question_key")
    return [_Near(pk, question, keys[key], None, True) for pk, question, key in found]


def _near(agent: Agent, asked: Sequence[str], vectors: Sequence[Vector] | None) -> list[_Near]:
    """Indexed phrasings that could be asked in the same situation; acronyms and synonyms of the agent are one writing."""
    profile = threshold_profile(embedder().recipe.model)
    least = (profile.memory if profile else None) or -1.0
    situation = profile.same_situation if profile else None
    forms = forms_of([agent.pk])
    found = [
        *near_phrasings(agent, asked, vectors, situation),
        *near_phrasings(agent, forms.other_readings(asked), None, situation),
    ]
    return [_Near(*near, near.score >= least and ask_the_same(near.stored, near.asked, forms)) for near in found]
