"""Following a turn: in the log of this process, in that of the process that runs it, or from the turn's rows.

A reader that goes away ends its following, never the turn. Turns whose process died are interrupted here.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from django.db import DatabaseError
from django.utils import timezone

from agents.database import first_line, in_database, in_thread, is_surprising
from agents.errors import ApplicationError
from chat.models import Message, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Failure, Sources
from chat.runs.event_log.base import EventLogs, NumberedEvent, TurnLog, event_logs
from chat.thread.branches import exchange_of, still_there
from chat.thread.rounds import pending_calls
from chat.thread.turns import ClaimedTurn, StaleTurn, interrupt_turns, running_turns, stale_turns
from chat.turn.path import ENDS
from chat.turn.tool_loop import awaiting
from chat.turn.values import shown_reading


async def settle_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Interrupt the stale turns of one conversation, or of all, step by step; returns how many there were."""
    stale = await in_database(stale_turns, conversation_id)
    if not stale:
        return 0
    return await in_database(interrupt_turns, await in_thread(_with_texts, stale))


def interrupt_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Interrupt stale turns as `settle_stale_turns` does, but synchronously, for jobs and synchronous views."""
    return interrupt_turns(_with_texts(stale_turns(conversation_id)))


def _with_texts(stale: Sequence[StaleTurn]) -> list[StaleTurn]:
    """The stale turns with the text and sources that their readers have seen, where a log still has them."""
    logs, found = event_logs(), []
    for turn in stale:
        partial = logs.partial_answer(turn.turn_id, run=turn.run)
        if partial is not None:
            turn = replace(turn, text=partial.text, sources=partial.sources)
        found.append(turn)
    return found


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn as its rows have it. `log` replays its events; `None` while a process runs it, or died running it."""

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


#: How often a reader of a turn that another process runs looks whether it has ended.
TURN_POLL_SECONDS = 0.5

logger = logging.getLogger(__name__)


class Following:
    """The turns that this process follows. `logs` are those of the turns that it runs itself."""

    def __init__(self, logs: Callable[[], EventLogs]) -> None:
        self._logs = logs
        self._elsewhere: WeakValueDictionary[uuid.UUID, TurnLog] = WeakValueDictionary()
        self._watching: asyncio.Task[None] | None = None

    async def follow(self, turn_id: uuid.UUID, after: int) -> AsyncIterator[NumberedEvent]:
        """The events of a turn after the given id: live, from memory, or (then anew, with `meta`) from the database."""
        log = self._logs().held(turn_id)
        if log is None or _may_have_gone_on(log):
            log, after = await self._found(turn_id, after)
        async for numbered in log.follow(after):
            yield numbered
        while log.is_lost or not log.is_complete:
            # The process that ran it died or lost it, or what it told cannot be seen from here.
            if log.is_lost:
                await asyncio.sleep(TURN_POLL_SECONDS)
            log, after = await self._found(turn_id, 0)
            async for numbered in log.follow(after):
                yield numbered

    async def _found(self, turn_id: uuid.UUID, after: int) -> tuple[TurnLog, int]:
        """The turn's current log, and the event id to go on from. Raises `ConversationNotFoundError`."""
        with still_there():
            stored = await in_database(read_turn, turn_id)
            if stored.is_stale:
                await settle_stale_turns(stored.conversation_id)
                stored = await in_database(read_turn, turn_id)
        logs = self._logs()
        held = logs.held(turn_id)
        if held is not None and held.run == stored.run and not held.is_lost:
            return held, after
        if stored.log is None:
            return self._running_elsewhere(turn_id, stored.run), after
        if after and (ended := await logs.ended(turn_id, run=stored.run)) is not None:
            return ended, after
        return stored.log, 0

    def _running_elsewhere(self, turn_id: uuid.UUID, run: int) -> TurnLog:
        log = self._elsewhere.get(turn_id)
        if log is None or log.is_lost or log.run != run:
            log = self._elsewhere[turn_id] = self._logs().elsewhere(turn_id, run=run)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="turn-watch")
        return log

    async def _watch(self) -> None:
        """Check in one query whether the followed turns of other processes still run."""
        missed: set[uuid.UUID] = set()
        while followed := {i: log for i, log in self._elsewhere.items() if not log.is_complete}:
            try:
                running = await in_database(running_turns, list(followed))
            except DatabaseError as error:
                said, cause = "%d turns of other processes are not seen: %s", first_line(error)
                logger.warning(said, len(followed), cause, exc_info=is_surprising(error))
            else:
                over = {i for i, log in followed.items() if running.get(i) != log.run}
                # Its last event comes right after its rows: what is missing at the second look is not coming.
                for turn_id in over & missed:
                    followed[turn_id].lose()
                    self._elsewhere.pop(turn_id, None)
                missed = over
            del followed
            await asyncio.sleep(TURN_POLL_SECONDS)


def _may_have_gone_on(log: TurnLog) -> bool:
    """Whether another process may have run the turn again after this run ended without an answer."""
    last = log.events[-1] if log.events else None
    return log.is_complete and not (isinstance(last, Done) and last.status == "done")
