"""Turns: claimed, leased, stopped, interrupted, reopened, ended. Synchronous; each verb is one short transaction.

A question is stored when its turn is claimed, once for a client's message id; the answer is stored once, at the end.
"""

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone

from agents.database import short_write
from agents.errors import StorageUnavailableError
from chat.errors import ConversationNotFoundError, TurnNotLastError, TurnRunningError, TurnTakenOverError
from chat.models import Conversation, Feedback, Message, Role, Turn, TurnStatus
from chat.protocol import Meta
from chat.thread.messages import hold_conversation, parent_beside
from chat.thread.rounds import TURN_LEASE_SECONDS, apply_abandoned_rounds

#: A title is the first characters of the first question (seed 004, section 5).
TITLE_CHARACTERS = 50


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn with its conversation, and its question. `is_new`: the caller's to run. `is_first`: nothing was written to the
    conversation before."""

    turn: Turn
    question: str
    is_new: bool
    is_first: bool = False

    def first_event(self) -> Meta:
        return Meta(
            turn_id=self.turn.pk,
            conversation_id=self.turn.conversation_id,
            client_message_id=self.turn.client_message_id,
            title=self.turn.conversation.title,
            question=self.question,
        )


def claim_turn(
    *,
    conversation_id: uuid.UUID,
    client_message_id: str,
    question: str,
    lease_seconds: float | None = None,
    replaces: uuid.UUID | None = None,
) -> ClaimedTurn:
    """Store the question under a turn of its own, on the current branch or as a version of the turn that it `replaces`.

    Raises `TurnRunningError` while another one runs, and `TurnNotFoundError`. Who claims renews the lease, or ends the
    turn.
    """
    lease = timedelta(seconds=lease_seconds or TURN_LEASE_SECONDS)
    for _try in range(2):
        try:
            with short_write():
                return _claim(conversation_id, client_message_id, question, lease, replaces)
        except IntegrityError:
            turns = Turn.objects.filter(conversation=conversation_id).select_related("conversation")
            own = turns.filter(client_message_id=client_message_id).first()
            if own is not None:
                return ClaimedTurn(own, question, is_new=False)
            if not _drop_paused_turn(conversation_id):
                break
    raise TurnRunningError(f"Conversation {conversation_id} has a running turn.")


def _claim(
    conversation_id: uuid.UUID, client_message_id: str, question: str, lease: timedelta, replaces: uuid.UUID | None
) -> ClaimedTurn:
    conversation = hold_conversation(conversation_id)
    named, leaf = conversation.title, conversation.leaf
    parent = leaf if replaces is None else parent_beside(conversation_id, leaf, replaces)
    now = timezone.now()
    turn = Turn.objects.create(
        conversation=conversation, parent_id=parent, client_message_id=client_message_id, lease_expires_at=now + lease
    )
    conversation.title = named or default_title(question)
    # A conversation that has not branched has no leaf.
    new_leaf = None if leaf is None and replaces is None else turn.pk
    written = Conversation.objects.filter(pk=conversation_id, leaf=leaf).update(
        title=conversation.title, version=F("version") + 1, updated_at=now, leaf=new_leaf
    )
    if not written:
        raise IntegrityError(f"The branch of {conversation_id} changed meanwhile.")
    Message.objects.create(conversation_id=conversation_id, turn=turn, role=Role.USER, content=question)
    return ClaimedTurn(turn, question, is_new=True, is_first=not named and conversation.version == 0)


def _drop_paused_turn(conversation_id: uuid.UUID) -> bool:
    """Asking something else is an answer to a tool that waits for approval: no."""
    paused = Turn.objects.filter(conversation=conversation_id, status=TurnStatus.AWAITING_APPROVAL)
    if not paused.update(status=TurnStatus.INTERRUPTED, finished_at=timezone.now()):
        return False
    apply_abandoned_rounds(conversation_id)
    return True


def default_title(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1].rstrip()}…"


def is_unnamed(conversation_id: uuid.UUID, question: str) -> bool:
    """Whether a conversation has no name yet but the start of this question."""
    return Conversation.objects.filter(pk=conversation_id, title=default_title(question)).exists()


def rename_conversation(*, conversation_id: uuid.UUID, turn_id: uuid.UUID, title: str, question: str) -> None:
    """Give a conversation the title that a model call wrote, unless a person has named it meanwhile."""
    named = Conversation.objects.filter(pk=conversation_id, title=default_title(question))
    named.update(title=title)
    Turn.objects.filter(pk=turn_id).update(llm_calls=F("llm_calls") + 1)


def renew_turns(turn_ids: Sequence[uuid.UUID]) -> None:
    """Extend the leases of the turns that this process runs."""
    expires = timezone.now() + timedelta(seconds=TURN_LEASE_SECONDS)
    running = Turn.objects.filter(pk__in=turn_ids, status=TurnStatus.RUNNING)
    running.update(lease_expires_at=expires)


def running_turns(turn_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Those of these turns that a living process runs, with the run that it is."""
    running = Turn.objects.filter(pk__in=turn_ids, status=TurnStatus.RUNNING, lease_expires_at__gt=timezone.now())
    return dict(running.values_list("pk", "run"))


def wanted_turns(turn_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Those of these turns that their owner has neither stopped nor deleted, with the run that they are at."""
    wanted = Turn.objects.filter(pk__in=turn_ids, stop_requested_at=None)
    return dict(wanted.values_list("pk", "run"))


def request_stop(conversation_id: uuid.UUID) -> bool:
    """Ask whichever process runs the conversation's turn to stop it; `False` where none runs."""
    running = Turn.objects.filter(
        conversation=conversation_id, status=TurnStatus.RUNNING, lease_expires_at__gte=timezone.now()
    )
    with short_write():
        return bool(running.update(stop_requested_at=timezone.now()))


def interrupt_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Interrupt the turns of dead processes, everywhere or in one conversation; returns how many there were."""
    stale = Turn.objects.filter(status=TurnStatus.RUNNING, lease_expires_at__lt=timezone.now())
    if conversation_id is not None:
        stale = stale.filter(conversation=conversation_id)
    count = 0
    for turn in stale.only("conversation", "run"):
        # What was deleted meanwhile needs no end.
        with suppress(ConversationNotFoundError):
            count += _interrupt(turn)
    return count


def _interrupt(turn: Turn) -> bool:
    """Interrupt one turn, unless it ended or its lease was renewed meanwhile."""
    now = timezone.now()
    stale = Turn.objects.filter(pk=turn.pk, run=turn.run, status=TurnStatus.RUNNING, lease_expires_at__lt=now)
    with short_write():
        hold_conversation(turn.conversation_id)
        if not stale.update(status=TurnStatus.INTERRUPTED, finished_at=now):
            return False
    apply_abandoned_rounds(turn.conversation_id)
    return True


def fell_with_the_storage(turn_id: uuid.UUID) -> bool:
    """Whether the last run of a turn ended because the database was in trouble; its answer is still to come."""
    failed = Turn.objects.filter(pk=turn_id, status=TurnStatus.FAILED)
    return failed.filter(error_code=StorageUnavailableError.code).exists()


def reopen_turn(turn_id: uuid.UUID) -> bool:
    """Make an interrupted or failed turn run again, without its partial answer; `False` where it runs or is answered.

    Raises `TurnNotLastError` where the conversation has gone on, `TurnRunningError` while another turn of it runs.
    """
    turn = Turn.objects.get(pk=turn_id)
    ended = Turn.objects.filter(pk=turn_id, status__in=(TurnStatus.INTERRUPTED, TurnStatus.FAILED))
    try:
        with short_write():
            hold_conversation(turn.conversation_id)
            reopened = ended.update(
                status=TurnStatus.RUNNING,
                run=F("run") + 1,
                lease_expires_at=timezone.now() + timedelta(seconds=TURN_LEASE_SECONDS),
                stop_requested_at=None,
                finished_at=None,
                error_code="",
            )
            if not reopened:
                return False
            if not _is_last(turn):
                raise TurnNotLastError(f"{turn_id} is not the last turn of its conversation.")
            _drop_answer(turn.conversation_id, turn_id)
    except IntegrityError as error:
        raise TurnRunningError(f"{turn.conversation_id} has a running turn.") from error
    return True


def _is_last(turn: Turn) -> bool:
    """Whether nothing was asked after it, on the branch that is shown; another one is not shown meanwhile."""
    leaf = Conversation.objects.values_list("leaf", flat=True).get(pk=turn.conversation_id)
    if leaf is not None:
        return leaf == turn.pk
    later = Turn.objects.filter(conversation=turn.conversation_id, started_at__gt=turn.started_at)
    return not later.exists()


def _drop_answer(conversation_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """Delete the text, and the verdict on it, that was kept of an interrupted run: a question has one answer."""
    Feedback.objects.filter(turn=turn_id).delete()
    messages = Message.objects.for_conversation(conversation_id).exchanges()
    messages.filter(turn=turn_id, role=Role.ASSISTANT).delete()


def save_exchange(
    *,
    turn_id: uuid.UUID,
    conversation_id: uuid.UUID,
    run: int,
    status: TurnStatus,
    text: str,
    sources: Sequence[dict[str, Any]],
    columns: Mapping[str, object],
    has_open_round: bool = False,
) -> int | None:
    """End a run of a turn with its answer; returns the message's id, `None` where there is no text to keep.

    `columns` are those of the turn's row but for its status and times; an open round is planned and not in the thread.
    Raises `ConversationNotFoundError` where the turn was deleted, `TurnTakenOverError` where it was run again.
    """
    is_pause = status is TurnStatus.AWAITING_APPROVAL
    turn = Turn.objects.filter(pk=turn_id, conversation=conversation_id, run=run)
    now = timezone.now()
    columns = {**columns, "status": status, "finished_at": None if is_pause else now}
    with short_write():
        conversation = Conversation.objects.filter(pk=conversation_id)
        if not conversation.update(version=F("version") + 1, updated_at=now):
            raise _not_ours(turn_id)
        if not turn.filter(status=TurnStatus.RUNNING).update(**columns):
            # The lease of this run had run out: it was marked as interrupted meanwhile.
            if not turn.filter(status=TurnStatus.INTERRUPTED).update(**columns):
                raise _not_ours(turn_id)
            _drop_answer(conversation_id, turn_id)
        if has_open_round and not is_pause:
            apply_abandoned_rounds(conversation_id)
        if is_pause or (not text and status is TurnStatus.FAILED):
            return None
        message = Message.objects.create(
            conversation_id=conversation_id, turn_id=turn_id, role=Role.ASSISTANT, content=text, sources=list(sources)
        )
        return message.pk


def _not_ours(turn_id: uuid.UUID) -> ConversationNotFoundError:
    if Turn.objects.filter(pk=turn_id).exists():
        return TurnTakenOverError(f"Turn {turn_id} was run again.")
    return ConversationNotFoundError(f"Turn {turn_id} is gone.")
