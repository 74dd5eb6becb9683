"""What a validated answer has answered: questions that waited in groups, choices, and what an app above counts.

Whether a question is given an answer is found out by asking it again (`chat.staff.quality.loops`), above this app; here
are the rows that say so. Each verb changes nothing the second time, so whoever was killed half-way begins again.
"""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.hooks import Hooks
from agents.models import Agent
from faqs.answers.indexing import SYNC_BATCH
from faqs.answers.neighbours import stored_vectors
from faqs.memory.keys import recipe_key
from faqs.models import (
    ChoiceStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    OptionChoice,
    QuestionGroup,
    UnansweredQuestion,
)
from knowledge.embeddings.base import embedder
from knowledge.vectors.base import Vector, batches

_OPEN_GROUPS = (GroupStatus.OPEN, GroupStatus.DRAFTED)

_OF_GROUP = UnansweredQuestion.objects.filter(group=OuterRef("pk"))
_WAITING = _OF_GROUP.filter(answered_by=None)
_NEWEST_ANSWER = Subquery(_OF_GROUP.order_by("-asked_at", "-pk").values("answered_by")[:1])

#: Given a validated answer, how many verdicts of an app above it has settled.
VerdictCounter = Callable[[int], int]

_verdict_counters: Hooks[VerdictCounter] = Hooks()
#: For what readers said of answers, whose rows belong to an app above.
register_verdict_counter = _verdict_counters.register


@dataclass(frozen=True, slots=True)
class AnsweredWork:
    """What one validated answer has answered."""

    groups: int
    verdicts: int
    choices: int

    def __bool__(self) -> bool:
        return any((self.groups, self.verdicts, self.choices))

    def texts(self) -> tuple[str, str, str]:
        """« 3 groupes », « 2 avis », « 1 choix »; empty where there is none."""
        counted = (
            (self.groups, ngettext("%(count)d groupe", "%(count)d groupes", self.groups)),
            (self.verdicts, ngettext("%(count)d avis", "%(count)d avis", self.verdicts)),
            (self.choices, ngettext("%(count)d choix", "%(count)d choix", self.choices)),
        )
        groups, verdicts, choices = (text % {"count": count} if count else "" for count, text in counted)
        return groups, verdicts, choices


def answered_work(learned_id: int) -> AnsweredWork:
    groups = QuestionGroup.objects.filter(status=GroupStatus.ANSWERED, answered_at__isnull=False)
    choices = OptionChoice.objects.filter(status=ChoiceStatus.ANSWERED)
    return AnsweredWork(
        groups=groups.filter(response=learned_id).count(),
        verdicts=sum(count(learned_id) for count in _verdict_counters),
        choices=choices.filter(answered_by=learned_id).count(),
    )


def answered_text(learned_id: int) -> str:
    """« A répondu à 3 groupes, 2 avis, 1 choix. », or nothing."""
    texts = [text for text in answered_work(learned_id).texts() if text]
    return _("A répondu à %(work)s.") % {"work": ", ".join(texts)} if texts else ""


# --- Questions and their groups --------------------------------------------------------------------------------------


def open_questions(agent_id: int) -> QuerySet[UnansweredQuestion]:
    """Questions without an answer, in groups that staff have neither dismissed nor closed."""
    return UnansweredQuestion.objects.filter(agent=agent_id, group__status__in=_OPEN_GROUPS, answered_by=None)


def orphaned_questions() -> QuerySet[UnansweredQuestion]:
    """Questions of groups that were closed by a replay, whose answer has been deleted since."""
    return UnansweredQuestion.objects.filter(
        group__status=GroupStatus.ANSWERED, group__answered_at__isnull=False, answered_by=None
    )


def kept_vectors(turn_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, bytes]:
    """The vectors of the questions that were kept of these turns, as far as they are of the embedding model in use."""
    if not turn_ids:
        return {}
    kept = UnansweredQuestion.objects.filter(source_turn__in=turn_ids, recipe=recipe_key(embedder().recipe))
    return {turn: bytes(row) for turn, row in kept.values_list("source_turn", "vector")}


def answer_question(key: int, learned_id: int | None) -> bool:
    """Say which validated answer the question is given now; `None`: none any more."""
    return bool(UnansweredQuestion.objects.filter(pk=key).update(answered_by=learned_id))


def close_groups(agent_id: int) -> int:
    """Close the open groups all of whose questions are given a validated answer now; returns how many.

    A group leads to the answer of its newest question.
    """
    with transaction.atomic():
        # As grouping does: no question joins a group between the look and the write.
        Agent.objects.select_for_update().get(pk=agent_id)
        answered = QuestionGroup.objects.filter(Exists(_OF_GROUP), agent=agent_id, status__in=_OPEN_GROUPS).exclude(
            Exists(_WAITING)
        )
        return answered.update(status=GroupStatus.ANSWERED, response=_NEWEST_ANSWER, answered_at=timezone.now())


def reopen_groups() -> int:
    """Open the groups again that a replay had closed and that have a question without an answer now; returns how many.

    Where the answer waits for a person to read it again, the group keeps it as its draft. One whose questions are given
    another answer now leads to that.
    """
    closed = QuestionGroup.objects.filter(status=GroupStatus.ANSWERED, answered_at__isnull=False)
    waiting = closed.filter(Exists(_WAITING))
    to_read = waiting.filter(response__status=LearnedStatus.TO_REVIEW)
    drafted = to_read.update(status=GroupStatus.DRAFTED, answered_at=None)
    opened = waiting.update(status=GroupStatus.OPEN, response=None, answered_at=None)
    given = _OF_GROUP.filter(answered_by=OuterRef("response"))
    closed.exclude(Exists(given)).update(response=_NEWEST_ANSWER)
    return drafted + opened


# --- Choices ---------------------------------------------------------------------------------------------------------


def answer_choice(key: int, learned_id: int | None) -> bool:
    """Close a choice that staff have not decided on, with what answers its question; `None` opens it again."""
    choices = OptionChoice.objects.filter(pk=key)
    if learned_id is None:
        answered = choices.filter(status=ChoiceStatus.ANSWERED)
        return bool(answered.update(status=ChoiceStatus.OPEN, answered_by=None))
    undecided = choices.filter(status__in=(ChoiceStatus.OPEN, ChoiceStatus.ANSWERED))
    return bool(undecided.update(status=ChoiceStatus.ANSWERED, answered_by=learned_id))


# --- Answers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PhrasingVector:
    """One way to ask a validated answer's question."""

    learned_id: int
    text: str
    vector: Vector


def phrasing_vectors(rows: Sequence[LearnedResponse]) -> Iterator[PhrasingVector]:
    """The phrasings of the rows, each with the vector of its point; what has no point yet is left out.

    Raises the errors of the vector store.
    """
    for part in batches(rows, SYNC_BATCH):
        vectors = stored_vectors(part)
        for row in part:
            for point, text in row.points():
                if point in vectors:
                    yield PhrasingVector(row.pk, text, vectors[point])
