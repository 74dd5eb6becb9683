"""Which answer is valid: the newest human one wins (SPEC section 1).

Until it is indexed, a validated answer is compared by text and the second key with what the memory would give
(`is_answered_since`); indexing then withdraws older answers to the same question, with a link to their replacement.
Withdrawing one too many costs a search, keeping one too many gives a wrong answer. Hits are confirmed by their row,
and the text served is the row's (`confirm_learned`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

import numpy as np
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.effective import effective_config
from agents.models import Agent, Deployment
from faqs.memory import (
    agents_of,
    memory_threshold,
    nearest_entries,
    recipe_key,
    set_status,
    stored_mark,
    validate_entries,
)
from faqs.models import (
    CachedResponse,
    DeploymentMemory,
    EntryStatus,
    LearnedKind,
    LearnedResponse,
    LearnedStatus,
    Origin,
    Phrasing,
    StatusReason,
    validity_condition,
)
from faqs.neighbours import bare, near_answers, stored_vectors
from faqs.origins import cites_unchanged
from faqs.second_key.same_question import ask_the_same
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.embeddings.base import Purpose, Recipe, embedder
from knowledge.language.words import same_writing
from knowledge.search import ConfirmedAnswers, Passage, SearchResult, faq_passage
from knowledge.synonyms import forms_of, read_forms
from knowledge.vectors.base import Vector, batches

#: Validated answers that have not taken effect everywhere yet: up to so many are compared with what would be given.
UNSETTLED_ANSWERS_COMPARED = 200
#: Entries of the memory that are compared with one way to ask a new validated answer, the nearest first.
SUPERSEDED_CANDIDATES = 1_000
#: The similarity that stands for the threshold of a memory that is off: it may be switched on later.
SUPERSEDED_SIMILARITY = 0.8
#: How far below the threshold of the memory an entry may be and still be compared: its question is another than the one
#: asked.
SUPERSEDED_SLACK = 0.1

#: Entries that wait for staff are read so many at a time.
_BATCH = 1_000


def is_answered_since(
    agent_ids: Collection[int], questions: Sequence[str], *, than: datetime | None = None, since: datetime | None = None
) -> bool:
    """Whether a validated answer that is not indexed yet, or was validated after `since`, asks one of these questions.

    Only answers validated after `than` count; all do where it is `None`. With more than `UNSETTLED_ANSWERS_COMPARED`,
    as during a large import, the result is `True`, and no learned answer is given.
    """
    recent = Q(settled_revision__lt=F("revision"))
    if since is not None:
        recent |= Q(validated_at__gte=since)
    rows = LearnedResponse.objects.valid().filter(recent, agent__in=agent_ids)
    if than is not None:
        rows = rows.filter(validated_at__gt=than)
    texts = _texts(rows)
    if len(texts) > UNSETTLED_ANSWERS_COMPARED:
        return True
    forms = forms_of(list(agent_ids))
    return any(ask_the_same(text, question, forms) for text in texts for question in questions)


def unsettled_answers(agent_id: int) -> list[LearnedResponse]:
    """The valid answers of an agent whose points may be out of date, the newest first; mostly none, and all turns ask."""
    unsettled = LearnedResponse.objects.unsettled().filter(agent=agent_id)
    if not unsettled.exists():
        return []
    newest = unsettled.valid().order_by("-validated_at")[:UNSETTLED_ANSWERS_COMPARED]
    return list(newest.prefetch_related("phrasings"))


def _texts(rows: QuerySet[LearnedResponse]) -> list[str]:
    most = UNSETTLED_ANSWERS_COMPARED + 1
    texts = list(rows.order_by("-validated_at").values_list("question", flat=True)[:most])
    if texts:
        others = Phrasing.objects.filter(response__in=rows.order_by())
        texts += others.values_list("text", flat=True)[: most - len(texts)]
    return texts


def _entries_asking(deployment: Deployment, asked: Sequence[tuple[str, Vector]]) -> list[set[int]]:
    """For each question, the entries of a deployment that ask it by the second key, served or waiting for staff."""
    model, forms = embedder(), read_forms(agents_of(deployment))
    places = [(at, text, vector) for at, (text, vector) in enumerate(asked)]
    others = [(at, other) for at, (text, _vector) in enumerate(asked) if (other := forms.other_reading(text))]
    if others:
        vectors = model.embed([text for _at, text in others], purpose=Purpose.QUERY)
        places += [(at, text, vector) for (at, text), vector in zip(others, vectors, strict=True)]
    found: list[set[int]] = [set() for _question in asked]
    mark, least = stored_mark(deployment.pk), _least_similarity(deployment, model.recipe)
    if mark is not None:
        for at, text, vector in places:
            near = nearest_entries(mark, vector, recipe=model.recipe, limit=SUPERSEDED_CANDIDATES, least=least).found
            found[at] |= {held.pk for held, _score in near if ask_the_same(held.question, text, forms)}
    waiting = _waiting_entries(deployment, [vector for _at, _text, vector in places], model.recipe, least)
    for position, pk, stored in waiting:
        at, text, _vector = places[position]
        if ask_the_same(stored, text, forms):
            found[at].add(pk)
    return found


def _least_similarity(deployment: Deployment, recipe: Recipe) -> float:
    """The lowest memory threshold of the deployment's agents, less a slack; a default where the memory is off."""
    each = effective_config(deployment).of_each_agent
    found = [memory_threshold(config, model=recipe.model) for config in each]
    known = [threshold for threshold in found if threshold is not None]
    return min(known, default=SUPERSEDED_SIMILARITY) - SUPERSEDED_SLACK


def _waiting_entries(
    deployment: Deployment, asked: Sequence[Vector], recipe: Recipe, least: float
) -> Iterator[tuple[int, int, str]]:
    """Entries that wait for staff, which no array holds, near each vector: (its position, key, question)."""
    vectors = np.stack(asked)
    waiting = CachedResponse.objects.filter(
        deployment=deployment, status=EntryStatus.TO_REVIEW, recipe_key=recipe_key(recipe)
    ).exclude(status_reason=StatusReason.SUPERSEDED)
    rows = waiting.values_list("pk", "question", "embedding").order_by().iterator(_BATCH)
    for batch in batches(rows, _BATCH):
        held = np.frombuffer(b"".join(bytes(row[2]) for row in batch), dtype="<f4")
        scores = vectors @ held.reshape(len(batch), -1).T
        for position, at in zip(*np.nonzero(scores >= least), strict=True):
            yield int(position), batch[at][0], batch[at][1]


def supersede_older(agent: Agent, rows: Sequence[LearnedResponse]) -> None:
    """Withdraw older answers to the same questions: entries of the agent's deployments, and its validated answers."""
    vectors = stored_vectors(rows)
    asked = [
        (row, text, vectors[point])
        for row in rows
        if row.kind == LearnedKind.FAQ
        for point, text in row.points()
        if point in vectors
    ]
    deployments = list(Deployment.objects.filter(Q(agent=agent) | Q(specialists__agent=agent)).distinct())
    _wait_for_writers(deployments)
    for deployment in deployments:
        if asked and CachedResponse.objects.filter(deployment=deployment).exclude(status=EntryStatus.OBSOLETE).exists():
            entries: dict[LearnedResponse, set[int]] = {}
            found = _entries_asking(deployment, [(text, vector) for _row, text, vector in asked])
            for (row, _text, _vector), keys in zip(asked, found, strict=True):
                entries.setdefault(row, set()).update(keys)
            for row, keys in entries.items():
                _withdraw(row, keys)
    for row in rows:
        _supersede_answers(row, [(text, vector) for each, text, vector in asked if each is row])


def _supersede_answers(row: LearnedResponse, asked: Sequence[tuple[str, Vector]]) -> None:
    """Send the agent's older answers to the same question to *to review*; the newest stays."""
    others = LearnedResponse.objects.valid().filter(agent=row.agent_id, kind=LearnedKind.FAQ)
    if not asked or row.validated_at is None or not others.exclude(pk=row.pk).exists():
        return
    texts, vectors = zip(*asked, strict=True)
    near = near_answers(agent=row.agent, questions=texts, vectors=vectors)
    same = others.filter(pk__in={each.learned_id for each in near} - {row.pk})
    reason = _("Remplacée par une réponse validée plus récente à la même question.")
    newer = same.filter(validated_at__gt=row.validated_at).order_by("-validated_at").first()
    if newer is not None:
        this = others.filter(pk=row.pk, validated_at__lt=newer.validated_at)
        _review_answers(this, answer=newer.answer, reason=reason, superseded_by=newer)
    older = same.filter(validated_at__lt=row.validated_at)
    _review_answers(older, answer=row.answer, reason=reason, superseded_by=row)


def _withdraw(row: LearnedResponse, entry_ids: Collection[int]) -> None:
    if not entry_ids:
        return
    found = CachedResponse.objects.filter(pk__in=entry_ids)
    learned = found.filter(validated_at=None).exclude(pk__in=cites_unchanged(row.pk))
    # What staff vouched for in a phase or a project says what holds there.
    vouched_for = found.filter(validated_at__lt=row.validated_at or timezone.now(), is_scoped=False)
    set_status(learned, EntryStatus.OBSOLETE, StatusReason.SUPERSEDED, superseded_by=row)
    set_status(vouched_for, EntryStatus.TO_REVIEW, StatusReason.SUPERSEDED, superseded_by=row)


def _wait_for_writers(deployments: Iterable[Deployment]) -> None:
    """Wait for the memories' writers, so that their entries are visible; later ones are compared with the new answer."""
    if not connection.features.has_select_for_update:
        return
    keys = [deployment.pk for deployment in deployments]
    for key in keys:
        DeploymentMemory.objects.get_or_create(pk=key)
    with transaction.atomic():
        list(DeploymentMemory.objects.select_for_update().filter(pk__in=keys).order_by("pk"))


@dataclass(frozen=True, slots=True)
class Older:
    """The candidates to withdraw when staff validate an entry: validated answers and entries that ask the same."""

    learned_ids: frozenset[int] = frozenset()
    entry_ids: frozenset[int] = frozenset()


def find_older(deployment: Deployment, question: str, vector: Vector) -> Older:
    """Find the candidates before anything is written. Waits for the vector store, and raises its errors."""
    return Older(
        frozenset(_answers_asking(deployment, question, vector)),
        frozenset(_entries_asking(deployment, [(question, vector)])[0]),
    )


def vouch_for_entries(entries: QuerySet[CachedResponse]) -> int:
    """Validate entries for a person and withdraw older answers to the same questions, in one transaction."""
    chosen = list(entries.select_related("deployment"))
    vectors = embedder().embed([entry.question for entry in chosen], purpose=Purpose.QUERY)
    older = {
        entry.pk: find_older(entry.deployment, entry.question, vector)
        for entry, vector in zip(chosen, vectors, strict=True)
    }
    with short_write():
        count = validate_entries(CachedResponse.objects.filter(pk__in=list(older)))
        for entry in CachedResponse.objects.filter(pk__in=list(older)):
            supersede_with_entry(entry, older[entry.pk])
    return count


def supersede_with_entry(entry: CachedResponse, older: Older) -> None:
    """Withdraw the candidates older than the entry's validation but its sources; a scoped entry supersedes nothing."""
    if entry.is_scoped or entry.validated_at is None or entry.status != EntryStatus.VALID:
        return
    beside = CachedResponse.objects.exclude(pk=entry.pk).filter(pk__in=older.entry_ids, is_scoped=False)
    note = _("Remplacée par l’entrée %(key)d, validée depuis.") % {"key": entry.pk}
    before = beside.filter(validated_at__lt=entry.validated_at)
    set_status(beside.filter(validated_at=None), EntryStatus.OBSOLETE, StatusReason.SUPERSEDED, note=note)
    set_status(before, EntryStatus.TO_REVIEW, StatusReason.SUPERSEDED, note=note)
    made_from = Origin.objects.filter(entry=entry).exclude(learned=None).values("learned_id")
    answers = LearnedResponse.objects.valid().filter(
        pk__in=older.learned_ids, kind=LearnedKind.FAQ, validated_at__lt=entry.validated_at
    )
    _review_answers(
        answers.exclude(pk__in=made_from),
        answer=entry.answer,
        reason=_("Une réponse plus récente à la même question a été validée dans la mémoire."),
        superseded_by_entry=entry,
    )


def _answers_asking(deployment: Deployment, question: str, vector: Vector | None = None) -> set[int]:
    """Validated answers of the deployment's agents to this question."""
    vectors = None if vector is None else [vector]
    return {
        near.learned_id
        for agent in Agent.objects.filter(pk__in=agents_of(deployment))
        for near in near_answers(agent=agent, questions=[question], vectors=vectors)
    }


def valid_answer(deployment: Deployment, question: str) -> LearnedResponse | None:
    """The newest validated answer of the deployment's agents to what is asked. Waits for the vector store."""
    valid = LearnedResponse.objects.valid().filter(pk__in=_answers_asking(deployment, question))
    return valid.filter(kind=LearnedKind.FAQ).order_by("-validated_at").first()


def _review_answers(
    older: QuerySet[LearnedResponse], *, answer: str, reason: str, **links: LearnedResponse | CachedResponse
) -> None:
    with transaction.atomic():
        # Locked with the condition: who has the newest word may have changed meanwhile.
        held = older.order_by("pk").select_for_update()
        keys = [row.pk for row in held if not same_writing(row.answer, answer)]
        if not keys:
            return
        LearnedResponse.objects.filter(pk__in=keys).mark_pending(
            status=LearnedStatus.TO_REVIEW,
            status_reason=reason,
            is_given_in_review=False,
            updated_at=timezone.now(),
            **links,
        )


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


@dataclass(frozen=True, slots=True)
class LearnedRecall:
    """`result`: the hits to answer or quote from. `courtesy`: the greeting or thanks with the question's words."""

    result: SearchResult
    learned: int
    courtesy: Passage | None = None


def recall_learned(found: SearchResult, question: str) -> LearnedRecall:
    """Put validated answers before documents of the same score, and take courtesies out of the passages."""
    hits = tuple(_learned_first(hit for hit in found.hits if not hit.is_courtesy))
    asked = bare(question)
    return LearnedRecall(
        result=SearchResult(hits=hits),
        learned=len({hit.learned_id for hit in hits if hit.is_faq}),
        # Small talk has nothing to compare but its words: the same words are the second key.
        courtesy=next((hit for hit in found.hits if hit.is_courtesy and bare(hit.question) == asked), None),
    )


def _learned_first(hits: Iterator[Passage]) -> Iterator[Passage]:
    for _score, equal in groupby(hits, key=lambda hit: hit.score):
        yield from sorted(equal, key=lambda hit: not hit.is_faq)
