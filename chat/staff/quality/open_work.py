"""Open work that a validated answer may end: unanswered questions, thumbs down, choices, each as a question to be asked
again.

Reads rows of three kinds as one; `end` writes them through the verbs of their owners. Nothing of a temporary chat is
read.
"""

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np
from django.conf import settings
from django.db.models import OuterRef, Q, QuerySet, Subquery

from agents.models import Agent, Deployment
from chat.models import AnswerSource, Feedback, Message, Role, Turn
from chat.staff.quality.replay import Asked
from chat.thread.verdicts import asked_question, settle_verdict
from faqs.loops import answer_choice, answer_question, kept_vectors, open_questions, orphaned_questions
from faqs.models import ChoiceStatus, OptionChoice, UnansweredQuestion, UnansweredReason
from knowledge.embeddings.base import Purpose, Vectors, embedder


class Kind(StrEnum):
    QUESTION = "question"
    VERDICT = "verdict"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One row that waits for an answer, or was ended by `ended_by`."""

    kind: Kind
    key: int
    asked: Asked
    #: A validated answer was given then, and complained of: only one that a person wrote since ends this.
    since: datetime | None = None
    ended_by: int | None = None
    #: The question's vector, where it is stored.
    stored_vector: bytes | None = None

    def vector(self) -> Vectors:
        if self.stored_vector is None:
            return embedder().embed_one(self.asked.text, purpose=Purpose.QUERY)
        row: Vectors = np.frombuffer(self.stored_vector, dtype="<f4")
        return row


def deployments_of(agent: Agent) -> list[Deployment]:
    """Where the agent answers, alone or among others; those in use first."""
    answering = Q(agent=agent) | Q(specialists__agent=agent)
    found = Deployment.objects.filter(answering).select_related("agent").distinct()
    return list(found.order_by("-is_active", "pk"))


def open_work(agent: Agent, deployments: Collection[Deployment]) -> list[Work]:
    """What waits for an answer that this agent may give; of thumbs down and choices the newest."""
    most = settings.LOOP_MAX_ITEMS
    verdicts = Feedback.objects.open().filter(turn__conversation__deployment__in=deployments)
    choices = OptionChoice.objects.filter(status=ChoiceStatus.OPEN, deployment__in=deployments)
    questions = open_questions(agent.pk).order_by("-asked_at", "-pk")
    return [
        *_of_questions(questions[: settings.UNANSWERED_MAX_QUESTIONS]),
        *_of_verdicts(verdicts.order_by("-updated_at"), most),
        *_of_choices(choices.order_by("-last_chosen_at")[:most]),
    ]


def ended_work(learned_ids: Collection[int]) -> list[Work]:
    """What these answers have ended."""
    return [
        *_of_questions(UnansweredQuestion.objects.filter(answered_by__in=learned_ids)),
        *_of_verdicts(Feedback.objects.filter(settled_by__in=learned_ids)),
        *_of_choices(OptionChoice.objects.filter(status=ChoiceStatus.ANSWERED, answered_by__in=learned_ids)),
    ]


def orphaned_work() -> list[Work]:
    """What was ended by answers that have been deleted since."""
    settled = Feedback.objects.filter(settled_at__isnull=False, settled_by=None)
    answered = OptionChoice.objects.filter(status=ChoiceStatus.ANSWERED, answered_by=None)
    return [*_of_questions(orphaned_questions()), *_of_verdicts(settled), *_of_choices(answered)]


def end(work: Work, learned_id: int | None) -> bool:
    """Say what answers it now; `None` opens it again. `False` where it has gone, or somebody has decided meanwhile."""
    match work.kind:
        case Kind.QUESTION:
            return answer_question(work.key, learned_id)
        case Kind.VERDICT:
            return settle_verdict(work.key, learned_id)
        case Kind.CHOICE:
            return answer_choice(work.key, learned_id)


def _of_questions(questions: QuerySet[UnansweredQuestion]) -> list[Work]:
    rows = list(questions.defer("vector"))
    turns = _turns(row.source_turn for row in rows)
    vectors = kept_vectors([row.source_turn for row in rows])
    elsewhere = _first_deployments({row.agent_id for row in rows})
    found = []
    for row in rows:
        turn = turns.get(row.source_turn)
        deployment = turn.conversation.deployment_id if turn else elsewhere.get(row.agent_id)
        if deployment is None:
            continue
        scope = (turn.conversation.phase, turn.conversation.project) if turn else ("", "")
        is_complaint = row.reason == UnansweredReason.REPORTED and _was_given(turn)
        found.append(
            Work(
                Kind.QUESTION,
                row.pk,
                Asked(deployment, row.question, *scope),
                since=row.asked_at if is_complaint else None,
                ended_by=row.answered_by_id,
                stored_vector=vectors.get(row.source_turn),
            )
        )
    return found


def _of_verdicts(verdicts: QuerySet[Feedback], most: int | None = None) -> list[Work]:
    """The words of a question are read in one query; a follow-up is asked as it was searched."""
    own = Message.objects.filter(turn=OuterRef("turn"), role=Role.USER, operation_id=None)
    rows = verdicts.filter(turn__conversation__is_temporary=False).annotate(
        own_words=Subquery(own.values("content")[:1])
    )
    shown = rows.select_related("turn__conversation")[:most]
    # A question that a thumb down had kept was embedded then.
    vectors = kept_vectors([row.turn_id for row in shown])
    found = []
    for row in shown:
        conversation = row.turn.conversation
        text = asked_question(row.turn) if _is_follow_up(row.turn) else row.own_words
        if text and text.strip():
            found.append(
                Work(
                    Kind.VERDICT,
                    row.pk,
                    Asked(conversation.deployment_id, text, conversation.phase, conversation.project),
                    since=row.updated_at if _was_given(row.turn) else None,
                    ended_by=row.settled_by_id,
                    stored_vector=vectors.get(row.turn_id),
                )
            )
    return found


def _of_choices(choices: Iterable[OptionChoice]) -> list[Work]:
    return [
        Work(Kind.CHOICE, row.pk, Asked(row.deployment_id, row.question), ended_by=row.answered_by_id)
        for row in choices
    ]


def _turns(keys: Iterable[uuid.UUID]) -> dict[uuid.UUID, Turn]:
    found = Turn.objects.filter(pk__in=list(keys)).select_related("conversation")
    return {turn.pk: turn for turn in found.defer("trace")}


def _first_deployments(agent_ids: Collection[int]) -> dict[int, int]:
    """For questions whose turn has gone: the first deployment of their agent."""
    agents = Agent.objects.filter(pk__in=agent_ids)
    firsts = ((agent.pk, next(iter(deployments_of(agent)), None)) for agent in agents)
    return {agent_id: first.pk for agent_id, first in firsts if first is not None}


def _was_given(turn: Turn | None) -> bool:
    return turn is not None and turn.answer_source == AnswerSource.DIRECT_QA


def _is_follow_up(turn: Turn) -> bool:
    lines = (line for line in turn.trace if isinstance(line, dict))
    return any(line.get("step") == "standalone" and line.get("outcome") == "follow_up" for line in lines)
