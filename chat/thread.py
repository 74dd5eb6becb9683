"""The only reader and writer of a thread's turns and messages. Synchronous; each verb is one short transaction.

A question is stored when its turn is claimed, before anything is looked up, so nothing typed is lost; the answer is
stored once, at the end. `claim_turn` is idempotent on the client's message id.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone

from agents.transactions import short_write
from chat.exceptions import ConversationNotFoundError, IsolationError, TurnRunningError
from chat.models import Conversation, Message, Role, Turn, TurnStatus

#: A title is the first characters of the first question (seed 004, section 5).
TITLE_CHARACTERS = 50


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, with the conversation that both belong to."""

    conversation_id: uuid.UUID
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """`is_new` is false when this client message already has its turn: follow it, do not answer twice."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    title: str
    is_new: bool
    is_first: bool


@dataclass(slots=True)
class Answer:
    """An answer in the making: filled by the path of a question, saved whole at its end."""

    text: str = ""
    source: str = ""
    model: str = ""
    score: float | None = None
    best_score: float | None = None
    sources: list[dict[str, Any]] = field(default_factory=list)
    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def claim_turn(
    *,
    conversation_id: uuid.UUID,
    client_message_id: str,
    question: str,
    lease_seconds: float | None = None,
) -> ClaimedTurn:
    """Store the question under a turn of its own; raises `TurnRunningError` while another one runs.

    The lease is `TURN_LEASE_SECONDS` unless said otherwise; who claims must renew it (`renew_turns`) or end the turn.
    """
    lease = timedelta(seconds=lease_seconds or settings.TURN_LEASE_SECONDS)
    for _ in range(2):
        try:
            with short_write():
                return _claim(conversation_id, client_message_id, question, lease)
        except IntegrityError:
            claimed = _existing(conversation_id, client_message_id)
            if claimed is not None:
                return claimed
            if not interrupt_stale_turns(conversation_id):
                break
    raise TurnRunningError(f"Conversation {conversation_id} has a running turn.")


def _existing(conversation_id: uuid.UUID, client_message_id: str) -> ClaimedTurn | None:
    turn = (
        Turn.objects.filter(conversation=conversation_id, client_message_id=client_message_id)
        .select_related("conversation")
        .first()
    )
    if turn is None:
        return None
    return ClaimedTurn(
        turn_id=turn.pk,
        conversation_id=conversation_id,
        title=turn.conversation.title,
        is_new=False,
        is_first=False,
    )


def _claim(
    conversation_id: uuid.UUID, client_message_id: str, question: str, lease: timedelta
) -> ClaimedTurn:
    conversation = Conversation.objects.filter(pk=conversation_id).first()
    if conversation is None:
        raise ConversationNotFoundError(f"Conversation {conversation_id} is gone.")
    turn = Turn.objects.create(
        conversation=conversation,
        client_message_id=client_message_id,
        lease_expires_at=timezone.now() + lease,
    )
    Message.objects.create(conversation=conversation, turn=turn, role=Role.USER, content=question)
    is_first = not conversation.title
    if is_first:
        conversation.title = default_title(question)
    Conversation.objects.filter(pk=conversation_id).update(
        title=conversation.title, updated_at=timezone.now()
    )
    return ClaimedTurn(
        turn_id=turn.pk,
        conversation_id=conversation.pk,
        title=conversation.title,
        is_new=True,
        is_first=is_first,
    )


def default_title(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1].rstrip()}…"


def renew_turns(turn_ids: Sequence[uuid.UUID]) -> None:
    """Extend the leases of the turns that this process runs."""
    expires = timezone.now() + timedelta(seconds=settings.TURN_LEASE_SECONDS)
    running = Turn.objects.filter(pk__in=turn_ids, status=TurnStatus.RUNNING)
    running.update(lease_expires_at=expires)


def interrupt_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Mark turns of a dead process, whose lease ran out, as interrupted; everywhere, or in one conversation."""
    now = timezone.now()
    stale = Turn.objects.filter(status=TurnStatus.RUNNING, lease_expires_at__lt=now)
    if conversation_id is not None:
        stale = stale.filter(conversation=conversation_id)
    return stale.update(status=TurnStatus.INTERRUPTED, finished_at=now)


def rename_conversation(
    *, conversation_id: uuid.UUID, turn_id: uuid.UUID, title: str, question: str
) -> None:
    """Give a conversation the title that a model call wrote, unless a person has named it meanwhile."""
    named = Conversation.objects.filter(pk=conversation_id, title=default_title(question))
    named.update(title=title)
    Turn.objects.filter(pk=turn_id).update(llm_calls=F("llm_calls") + 1)


def previous_question(*, conversation_id: uuid.UUID, turn_id: uuid.UUID | None) -> str:
    """The question before this turn's, however it ended: what a follow-up leans on was asked, answered or not."""
    questions = Message.objects.for_conversation(conversation_id).filter(role=Role.USER)
    if turn_id is not None:
        questions = questions.exclude(turn=turn_id)
    return questions.order_by("-id").values_list("content", flat=True).first() or ""


def load_exchanges(*, conversation_id: uuid.UUID, limit: int) -> list[Exchange]:
    """The last `limit` finished exchanges, oldest first; the turn that is being answered is not finished."""
    finished = Message.objects.for_conversation(conversation_id).filter(
        turn__status=TurnStatus.DONE
    )
    by_turn: dict[uuid.UUID, dict[str, Message]] = {}
    for message in reversed(finished.order_by("-id")[: 2 * limit]):
        by_turn.setdefault(message.turn_id, {})[message.role] = message
    return [
        Exchange(
            conversation_id=pair[Role.USER].conversation_id,
            question=pair[Role.USER].content,
            answer=pair[Role.ASSISTANT].content,
        )
        for pair in by_turn.values()
        if len(pair) == 2
    ]


def check_isolation(exchanges: Sequence[Exchange], conversation_id: uuid.UUID | None) -> None:
    """Raise before a model is called with anything of another conversation."""
    foreign = [e for e in exchanges if e.conversation_id != conversation_id]
    if foreign:
        raise IsolationError(
            f"{len(foreign)} exchanges of other conversations were loaded for {conversation_id}."
        )


def save_exchange(
    *,
    turn_id: uuid.UUID,
    conversation_id: uuid.UUID,
    answer: Answer,
    status: TurnStatus,
    trace: list[dict[str, Any]],
    error_code: str = "",
) -> int | None:
    """End a turn with its answer; returns the message's id, `None` where there is no text to keep.

    A turn that was taken for dead (its lease ran out) and ends after all keeps its answer. Raises
    `ConversationNotFoundError` where the turn was deleted meanwhile.
    """
    with short_write():
        updated = Turn.objects.filter(
            pk=turn_id,
            conversation=conversation_id,
            status__in=(TurnStatus.RUNNING, TurnStatus.INTERRUPTED),
        ).update(
            status=status,
            answer_source=answer.source,
            model=answer.model,
            score=answer.score,
            best_score=answer.best_score,
            llm_calls=answer.llm_calls,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            trace=trace,
            error_code=error_code,
            finished_at=timezone.now(),
        )
        if not updated:
            raise ConversationNotFoundError(f"Turn {turn_id} is gone or has ended already.")
        Conversation.objects.filter(pk=conversation_id).update(updated_at=timezone.now())
        if not answer.text and status is TurnStatus.FAILED:
            return None
        message = Message.objects.create(
            conversation_id=conversation_id,
            turn_id=turn_id,
            role=Role.ASSISTANT,
            content=answer.text,
            sources=answer.sources,
        )
        return message.pk
