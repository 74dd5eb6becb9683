"""A stored turn told again as events, from its rows: to a reader who comes late, or after another process ran it."""

import uuid
from dataclasses import dataclass

from django.utils import timezone

from agents.errors import ApplicationError
from chat.models import Message, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Failure, Sources
from chat.runs.event_log.base import TurnLog
from chat.thread.reading import exchange_of
from chat.thread.rounds import pending_calls
from chat.thread.turns import ClaimedTurn
from chat.turn.path import ENDS
from chat.turn.tool_loop import awaiting
from chat.turn.trace import shown_reading


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """What the rows say of a turn. `log` is its events told again; `None` while a process runs it, or died of it."""

    run: int
    conversation_id: uuid.UUID
    log: TurnLog | None
    is_stale: bool = False


def read_turn(turn_id: uuid.UUID) -> StoredTurn:
    """Raises `Turn.DoesNotExist` where the turn was deleted."""
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    if turn.status == TurnStatus.RUNNING:
        is_stale = turn.lease_expires_at <= timezone.now()
        return StoredTurn(turn.run, turn.conversation_id, log=None, is_stale=is_stale)
    asked, answer = exchange_of(turn)
    log = TurnLog(turn.run)
    question = asked.content if asked else ""
    log.append(ClaimedTurn.of(turn, question, is_new=False).first_event())
    if turn.status == TurnStatus.AWAITING_APPROVAL:
        for pending in pending_calls(turn_id):
            log.append(awaiting(pending.call, round_index=turn.rounds))
    if answer is not None:
        log.append(Sources(answer.sources))
        log.append(Delta(answer.content))
    log.append(_last_event(turn, answer))
    return StoredTurn(turn.run, turn.conversation_id, log)


def _last_event(turn: Turn, answer: Message | None) -> Event:
    if turn.status == TurnStatus.FAILED or (answer is None and turn.status == TurnStatus.DONE):
        return Failure.of_code(turn.error_code)
    content = answer.content if answer else ""
    return Done(
        status=ENDS[TurnStatus(turn.status)],
        answer_source=turn.answer_source,
        model=turn.model,
        message_id=answer.pk if answer else None,
        content=content,
        turn_id=str(turn.pk),
        source_numbers=[source["n"] for source in answer.sources] if answer else [],
        title=turn.conversation.title,
        agent=turn.answered_by,
        score=turn.score,
        cut=turn.error_code,
        read_as=shown_reading(turn.trace),
    )


def internal_failure() -> Failure:
    return Failure.of_code(ApplicationError.code)
