"""Validated answers by what they are asked; courtesies by their words; the first questions that a desk offers.

The second key decides; the similarity only says which to compare. `find_similar` names duplicates and contradictions,
whatever their state. Waits for the embedder and the vector store.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from agents.cache import TtlCache
from agents.models import Agent, Deployment
from faqs.memory import agents_of, normalised_question
from faqs.models import IndexState, LearnedKind, LearnedResponse, LearnedStatus, Phrasing
from faqs.second_key.same_question import ask_the_same
from knowledge.embeddings.base import Purpose, Vectors, embedder
from knowledge.language.words import fold, language_of, same_writing, words
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.synonyms import read_forms
from knowledge.vectors.base import Condition, PayloadFilter, Query, Vector, Wanted, vector_store

#: The collection that all agents share (seed 001). An alias: behind it stands one collection for each recipe.
LEARNED_COLLECTION = "learned_responses"
#: Neighbours looked at for each question.
NEIGHBOURS = 10
#: Answers without points that a question is compared with, those changed last.
MAX_WAITING = 500


class NearPhrasing(NamedTuple):
    """A phrasing of a stored answer, with the question that it is near to and their cosine (`None`: the same text)."""

    learned_id: int
    stored: str
    asked: str
    score: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Phrasings of answers that have no points: drafts, answers to review, answers that wait to be indexed."""

    phrasings: Sequence[tuple[int, str]]
    vectors: Vectors

    def near(self, question: str, vector: Vector) -> list[NearPhrasing]:
        """Return those nearest to a question, best first."""
        scores = self.vectors @ vector
        best = np.argsort(-scores, kind="stable")[:NEIGHBOURS]
        found = ((*self.phrasings[at], float(scores[at])) for at in best)
        return [NearPhrasing(learned_id, text, question, score) for learned_id, text, score in found]


def waiting_phrasings(agent: Agent) -> Waiting:
    """Embed the phrasings of the agent's answers without points. Raises the embedder's errors."""
    rows = LearnedResponse.objects.filter(agent=agent, kind=LearnedKind.FAQ).exclude(index_state=IndexState.INDEXED)
    newest = rows.exclude(status=LearnedStatus.OBSOLETE).order_by("-updated_at").prefetch_related("phrasings")
    phrasings = [(row.pk, text) for row in newest[:MAX_WAITING] for _point, text in row.points()]
    if not phrasings:
        return Waiting((), np.empty((0, embedder().recipe.dimensions), dtype=np.float32))
    return Waiting(phrasings, embedder().embed([text for _pk, text in phrasings], purpose=Purpose.QUERY))


def near_answers(
    *, agent: Agent, questions: Sequence[str], vectors: Sequence[Vector] | None = None, waiting: Waiting | None = None
) -> list[NearPhrasing]:
    """Phrasings of the agent's answers that ask one of these, each once, whatever their status.

    The same text is found also where its points are not written; other words only among `waiting`. `vectors` are those
    of the questions, where they are known. An agent's acronyms and synonyms are one writing, and each form is looked up.
    """
    forms = read_forms([agent.pk])
    others = list(filter(None, map(forms.other_reading, questions)))
    keys = [normalised_question(question) for question in (*questions, *others)]
    rows = LearnedResponse.objects.filter(agent=agent, question_key__in=keys)
    found = {
        (learned_id, question): NearPhrasing(learned_id, question, question, None)
        for learned_id, question in rows.values_list("pk", "question")
    }
    known = list(embedder().embed(list(questions), purpose=Purpose.QUERY) if vectors is None else vectors)
    phrasings = [*near_phrasings(agent, questions, known), *near_phrasings(agent, others)]
    if waiting is not None and waiting.phrasings:
        phrasings += [
            near for text, vector in zip(questions, known, strict=True) for near in waiting.near(text, vector)
        ]
    for near in phrasings:
        if ask_the_same(near.stored, near.asked, forms):
            found.setdefault((near.learned_id, near.stored), near)
    return list(found.values())


def stored_vectors(rows: Sequence[LearnedResponse]) -> dict[str, Vector]:
    """The vectors of the points of these rows, by point, as far as they are written."""
    store = vector_store()
    if store.resolve_alias(LEARNED_COLLECTION) is None:
        return {}
    points = store.fetch(LEARNED_COLLECTION, [point for row in rows for point, _ in row.points()])
    return {key: point.vector for key, point in points.items()}


def near_phrasings(
    agent: Agent, questions: Sequence[str], vectors: Sequence[Vector] | None = None
) -> list[NearPhrasing]:
    """Indexed phrasings near each of the questions, best first; `vectors` as in `near_answers`."""
    store, model = vector_store(), embedder()
    if not questions or store.resolve_alias(LEARNED_COLLECTION) is None:
        return []
    wanted = Wanted(limit=NEIGHBOURS, payload_filter=PayloadFilter(all_of=(Condition("agent_id", agent.pk),)))
    if vectors is None:
        vectors = list(model.embed(list(questions), purpose=Purpose.QUERY))
    hits = [
        (hit, question)
        for question, vector in zip(questions, vectors, strict=True)
        for hit in store.query(LEARNED_COLLECTION, Query(vector, model.recipe), wanted)
    ]
    owners = _owners([hit.id for hit, _question in hits])
    return [
        NearPhrasing(*owners[hit.id], question, hit.score)
        for hit, question in sorted(hits, key=lambda each: -each[0].score)
        if hit.id in owners
    ]


def _owners(ids: list[str]) -> dict[str, tuple[int, str]]:
    """The answer and the text of each point."""
    mains = LearnedResponse.objects.filter(point_id__in=ids)
    others = Phrasing.objects.filter(point_id__in=ids)
    rows = [*mains.values_list("point_id", "pk", "question"), *others.values_list("point_id", "response_id", "text")]
    return {str(point): (learned, text) for point, learned, text in rows}


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
    """Return the agent's answers to any of these questions, contradictions first; `exclude` is the row being edited."""
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
            found[row.pk] = SimilarAnswer(kind, row, each.stored, each.score)
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


def bare(text: str) -> str:
    """The words of a text, without case, accents, punctuation and signs."""
    return " ".join(words(fold(text)))


def staff_reply(agent_ids: Collection[int], said: str) -> LearnedResponse | None:
    """The newest valid courtesy of these agents in the same words, case, accents and signs apart. One query, or two."""
    asked = bare(said)
    rows = LearnedResponse.objects.valid().filter(agent_id__in=agent_ids, kind=LearnedKind.COURTESY)
    for row in rows.order_by("-validated_at", "-pk").prefetch_related("phrasings"):
        if any(bare(text) == asked for _point, text in row.points()):
            return row
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
    agents = agents_of(deployment)
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
