"""Questions that got no good answer: kept at the end of their turn, grouped by meaning, drafted into validated answers.

Personal data: who asked is not kept, addresses and numbers are masked, everything is forgotten after
`UNANSWERED_RETENTION_DAYS`, and with its conversation. Callers never store a question of a dry run.
"""

import re
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.models import Agent
from faqs.answers import FAQ_MAX_PHRASINGS, one_line, other_phrasings, save_learned
from faqs.memory import recipe_key
from faqs.models import GroupStatus, LearnedResponse, LearnedStatus, QuestionGroup, UnansweredQuestion, UnansweredReason
from faqs.second_key.same_question import ask_the_same, compare_questions
from knowledge.embeddings.base import Recipe, Vectors, embedder
from knowledge.models import QA_MAX_QUESTION_CHARACTERS
from knowledge.synonyms import forms_of
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import batches

#: An agent keeps the newest of its unanswered questions only.
UNANSWERED_MAX_QUESTIONS = 5_000

#: Questions this close mean the same, where the embedding model has no measured profile.
UNANSWERED_GROUP_THRESHOLD = 0.75

#: Questions that are grouped in one transaction, and groups that each is compared with, the newest first.
GROUP_BATCH = 200
MAX_GROUPS = 2_000
_LONGEST = 500
#: What stands for a masked piece, in every language.
MASKED_ADDRESS, MASKED_NUMBER = "[@]", "[#]"
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
#: Six digits or more, however they are spaced: telephone, account and file numbers. Years and amounts stay.
_NUMBER = re.compile(r"\+?\d(?:[\s.\-/]?\d){5,}")
#: Differences after which two questions must not share an answer, however close they are.
_HARD = frozenset({"number", "date", "unit", "negation", "polarity", "name", "scope", "role"})


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question on its way to be kept; `vector` is that of the turn."""

    agent_id: int
    question: str
    vector: Vectors
    recipe: Recipe
    reason: UnansweredReason
    score: float | None


def is_kept(turn_ids: Collection[uuid.UUID]) -> bool:
    """Whether the question of one of these turns is stored already, so that it need not be embedded."""
    return UnansweredQuestion.objects.filter(source_turn__in=turn_ids).exists()


def keep_unanswered(unanswered: Unanswered, *, turn_id: uuid.UUID, earlier: Collection[uuid.UUID] = ()) -> None:
    """Store a question once per turn; skip one that repeats the stored question of an `earlier` turn."""
    if earlier and is_kept(earlier):
        return
    UnansweredQuestion.objects.get_or_create(
        source_turn=turn_id,
        defaults={
            "agent_id": unanswered.agent_id,
            "question": masked(unanswered.question),
            "reason": unanswered.reason,
            "score": unanswered.score,
            "recipe": recipe_key(unanswered.recipe),
            "vector": np.asarray(unanswered.vector, dtype="<f4").tobytes(),
        },
    )


def masked(question: str) -> str:
    """A question on one line, without addresses and long numbers."""
    text = _EMAIL.sub(MASKED_ADDRESS, one_line(question))
    return _NUMBER.sub(MASKED_NUMBER, text)[:_LONGEST]


def forget_turns(turn_ids: Iterable[uuid.UUID]) -> None:
    """Delete the questions of these turns, whose conversation is deleted."""
    UnansweredQuestion.objects.filter(source_turn__in=list(turn_ids)).delete()
    _drop_empty_groups()


def purge_unanswered() -> int:
    """Delete what is past the retention time, or beyond the number an agent keeps; returns how many."""
    limit = timezone.now() - timedelta(days=settings.UNANSWERED_RETENTION_DAYS)
    deleted, _rows = UnansweredQuestion.objects.filter(asked_at__lt=limit).delete()
    most = UNANSWERED_MAX_QUESTIONS
    counted = UnansweredQuestion.objects.order_by().values("agent").annotate(count=Count("pk"))
    for agent in list(counted.filter(count__gt=most).values_list("agent", flat=True)):
        newest = UnansweredQuestion.objects.filter(agent=agent).order_by("-asked_at", "-pk")
        for batch in batches(list(newest.values_list("pk", flat=True)[most:]), GROUP_BATCH):
            deleted += UnansweredQuestion.objects.filter(pk__in=batch).delete()[0]
    if deleted:
        _drop_empty_groups()
    return deleted


def tidy_unanswered() -> None:
    """Delete questions past their retention and group new ones; workers run it every few seconds."""
    purge_unanswered()
    group_questions()


def _drop_empty_groups() -> None:
    QuestionGroup.objects.filter(questions=None).delete()


def group_questions() -> int:
    """Give questions that have none their group, at most `GROUP_BATCH` of each agent; returns how many."""
    waiting = UnansweredQuestion.objects.filter(group=None).order_by()
    agents = list(waiting.values_list("agent", flat=True).distinct())
    if not agents:
        return 0
    # The embedder may have to be loaded: before the transactions.
    least = same_meaning_threshold()
    return sum(_group_agent(agent_id, least) for agent_id in agents)


def _group_agent(agent_id: int, least: float) -> int:
    with transaction.atomic():
        # One at a time for an agent: two would each make the group that the other one made.
        Agent.objects.select_for_update().get(pk=agent_id)
        waiting = UnansweredQuestion.objects.filter(agent=agent_id, group=None)
        batch = list(waiting.order_by("asked_at", "pk")[:GROUP_BATCH])
        for recipe in sorted({row.recipe for row in batch}):
            _group_rows(agent_id, recipe, [row for row in batch if row.recipe == recipe], least)
    return len(batch)


def _group_rows(agent_id: int, recipe: str, rows: list[UnansweredQuestion], least: float) -> None:
    """Leader clustering: a question joins the nearest first question of a group that is not answered, or begins one."""
    known = QuestionGroup.objects.filter(agent=agent_id, recipe=recipe).exclude(status=GroupStatus.ANSWERED)
    groups = list(known[:MAX_GROUPS])
    vectors = [_vector(row.vector) for row in rows]
    leaders = np.empty((len(groups) + len(rows), len(vectors[0])), dtype=np.float32)
    for place, group in enumerate(groups):
        leaders[place] = _vector(group.vector)
    begun = []
    for row, vector in zip(rows, vectors, strict=True):
        scores = leaders[: len(groups)] @ vector
        best = int(scores.argmax()) if len(groups) else -1
        if best >= 0 and scores[best] >= least:
            row.group = groups[best]
        else:
            leaders[len(groups)] = vector
            row.group = QuestionGroup(agent_id=agent_id, question=row.question, recipe=recipe, vector=row.vector)
            groups.append(row.group)
            begun.append(row.group)
    QuestionGroup.objects.bulk_create(begun)
    for row in rows:
        row.group = row.group  # its key is known only since the group is stored
    UnansweredQuestion.objects.bulk_update(rows, ["group"], batch_size=GROUP_BATCH)


def same_meaning_threshold() -> float:
    """How close two questions must be to share a group; no second key stands behind it."""
    profile = threshold_profile(embedder().recipe.model)
    if profile is None or profile.same_meaning is None:
        return float(UNANSWERED_GROUP_THRESHOLD)
    return profile.same_meaning


def ranked_groups() -> QuerySet[QuestionGroup]:
    """Groups with `asked_count` and `last_asked`, the most asked first, then the most recent."""
    asked = UnansweredQuestion.objects.filter(group=OuterRef("pk")).order_by().values("group")
    return QuestionGroup.objects.annotate(
        asked_count=Coalesce(Subquery(asked.annotate(found=Count("pk")).values("found")), 0),
        last_asked=Subquery(asked.annotate(found=Max("asked_at")).values("found")),
    ).order_by("-asked_count", "-last_asked")


def group_texts(group: QuestionGroup, limit: int) -> list[str]:
    """The different questions of a group, its own first, then the newest."""
    texts = group.questions.order_by("-asked_at").values_list("question", flat=True)[:GROUP_BATCH]
    return list(dict.fromkeys([group.question, *texts]))[:limit]


def _vector(data: bytes | memoryview) -> Vectors:
    row: Vectors = np.frombuffer(bytes(data), dtype="<f4")
    return row


def draft_from_group(group: QuestionGroup, *, owner: AbstractBaseUser | None = None) -> LearnedResponse:
    """A draft of a validated answer for a group, made once; its answer is a person's to write."""
    if group.response is not None:
        return group.response
    longest = QA_MAX_QUESTION_CHARACTERS
    texts = [
        text
        for text in group_texts(group, GROUP_BATCH)[1:]
        if len(text) <= longest and _may_share_answer(group.question, text)
    ]
    with transaction.atomic():
        stored = QuestionGroup.objects.select_for_update().get(pk=group.pk)
        if stored.response is not None:
            return stored.response
        response = LearnedResponse(
            agent=group.agent,
            question=group.question[:longest],
            status=LearnedStatus.TO_REVIEW,
            status_reason=_("Brouillon pour une question sans réponse : à relire avant de valider."),
            owner_id=owner.pk if owner else None,
        )
        save_learned(response, phrasings=other_phrasings(group.question, texts)[:FAQ_MAX_PHRASINGS], by=owner)
        group.response, group.status = response, GroupStatus.DRAFTED
        group.save(update_fields=["response", "status"])
    return response


def close_questions(keys: Collection[int], response: LearnedResponse) -> None:
    """Record that a correction answers these questions, and close their groups that have none left without an answer."""
    questions = UnansweredQuestion.objects.filter(pk__in=keys)
    left = UnansweredQuestion.objects.filter(group=OuterRef("pk"), answered_by=None)
    with transaction.atomic():
        # As grouping does: no question joins a group between the look and the write.
        Agent.objects.select_for_update().get(pk=response.agent_id)
        groups = list(questions.exclude(group=None).values_list("group", flat=True).distinct())
        questions.update(answered_by=response)
        QuestionGroup.objects.filter(~Exists(left), pk__in=groups).exclude(status=GroupStatus.DISMISSED).update(
            status=GroupStatus.ANSWERED, response=response, answered_at=timezone.now()
        )


def close_same(group: QuestionGroup, response: LearnedResponse) -> None:
    """Close those questions of a group that ask what the response answers."""
    forms, said = forms_of([response.agent_id]), [text for _point, text in response.points()]
    waiting = group.questions.filter(answered_by=None)
    close_questions([e.pk for e in waiting if any(ask_the_same(text, e.question, forms) for text in said)], response)


def _may_share_answer(question: str, other: str) -> bool:
    """Whether two questions may share an answer; not where `other` is masked, or a year or a name differs."""
    if MASKED_ADDRESS in other or MASKED_NUMBER in other:
        return False
    kinds = {each.kind for each in compare_questions(question, other).disagreements}
    return not kinds & _HARD
