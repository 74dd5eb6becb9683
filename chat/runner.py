"""Running turns, their event logs, following and stopping them.

A turn is a task of this process, not of a socket: a reader that goes away ends its following, never the turn. The log
of a turn is kept in memory while it runs and shortly after, so that a reader re-attaches after the last event it saw;
what is older is read from the database. Event ids count from 1 within a turn.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from agents.bridges import in_database
from chat.afterwards import settle
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import FINAL_EVENTS, Delta, Done, Event, Failure, Meta, Sources
from chat.rendering import render_answer
from chat.rounds import decide_call, pending_calls
from chat.thread import ClaimedTurn, claim_turn, renew_turns
from chat.titles import write_title
from chat.tool_loop import awaiting
from chat.turn import ENDS, TurnRequest, TurnResult, load_context, run_turn

logger = logging.getLogger(__name__)

NumberedEvent = tuple[int, Event]


class TurnLog:
    """The events of one turn, in order, with a wake-up for whoever follows."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    @property
    def is_complete(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], FINAL_EVENTS)

    def append(self, event: Event) -> None:
        self.events.append(event)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """Events after `after`, as they come, to the last; text that is already waiting comes joined."""
        position = after
        while True:
            changed = self._changed
            while position < len(self.events):
                position, event = self._next(position)
                yield position, event
                if isinstance(event, FINAL_EVENTS):
                    return
            await changed.wait()

    def _next(self, position: int) -> NumberedEvent:
        event = self.events[position]
        position += 1
        if not isinstance(event, Delta):
            return position, event
        texts = [event.text]
        while position < len(self.events) and isinstance(following := self.events[position], Delta):
            texts.append(following.text)
            position += 1
        return position, event if len(texts) == 1 else Delta("".join(texts))


class Runner:
    """Every turn that this process runs."""

    def __init__(self) -> None:
        self._logs: dict[uuid.UUID, TurnLog] = {}
        self._tasks: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._starting: set[asyncio.Task[Any]] = set()
        self._by_conversation: dict[uuid.UUID, uuid.UUID] = {}
        self._afterwards = asyncio.Semaphore(1)
        self._settling: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._heartbeat: asyncio.Task[None] | None = None

    async def start(
        self, conversation: Conversation, *, question: str, client_message_id: str, language: str
    ) -> uuid.UUID:
        """Claim the turn and start it; the same client message again gives the same turn.

        A caller that goes away meanwhile cancels nothing: a claimed turn is always started. Raises `TurnRunningError`
        while another turn of the conversation runs.
        """
        starting = asyncio.create_task(
            self._start(conversation, question, client_message_id, language)
        )
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        return await asyncio.shield(starting)

    async def _start(
        self, conversation: Conversation, question: str, client_message_id: str, language: str
    ) -> uuid.UUID:
        claimed, request = await in_database(
            _claim, conversation, question, client_message_id, language
        )
        if request is None:
            return claimed.turn_id
        self._launch(request, claimed, _meta(claimed, client_message_id, question))
        return claimed.turn_id

    async def decide(
        self, turn: Turn, *, tool_call_id: str, is_approved: bool, language: str
    ) -> bool:
        """Store a person's decision on a tool; after the last one the turn goes on here, with a log of its own.

        Raises `ApprovalOverError` where the call does not wait.
        """
        deciding = asyncio.create_task(self._decide(turn, tool_call_id, is_approved, language))
        self._starting.add(deciding)
        deciding.add_done_callback(self._starting.discard)
        return await asyncio.shield(deciding) is not None

    async def _decide(
        self, turn: Turn, tool_call_id: str, is_approved: bool, language: str
    ) -> uuid.UUID | None:
        decided = await in_database(_decided, turn.pk, tool_call_id, is_approved)
        if decided is None:
            return None
        deployment_id, claimed, meta = decided
        request = TurnRequest(
            deployment_id=deployment_id,
            question=meta.question,
            language=language,
            turn_id=turn.pk,
            conversation_id=turn.conversation_id,
            is_resumed=True,
        )
        self._launch(request, claimed, meta)
        return turn.pk

    def _launch(self, request: TurnRequest, claimed: ClaimedTurn, meta: Meta) -> None:
        log = self._logs[claimed.turn_id] = TurnLog()
        log.append(meta)
        task = asyncio.create_task(self._run(request, log), name=f"turn-{claimed.turn_id}")
        self._tasks[claimed.turn_id] = task
        self._by_conversation[claimed.conversation_id] = claimed.turn_id
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._keep_leases(), name="turn-heartbeat")

    async def follow(self, turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The events of a turn after the given id: live, from memory, or from the database."""
        log = self._logs.get(turn_id)
        if log is None:
            log = await self._told_again(turn_id)
            # A stored answer is one piece: a reader that has seen part of the live text gets it whole again.
            after = 0 if 0 < after < len(log.events) else after
        if log.is_complete:
            # Whoever has seen everything is told once more how it ended.
            after = min(after, len(log.events) - 1)
        async for numbered in log.follow(after):
            yield numbered

    async def _told_again(self, turn_id: uuid.UUID) -> TurnLog:
        """The events of a turn that this process does not hold; one that runs elsewhere is waited for."""
        while True:
            log = await in_database(_stored_log, turn_id)
            if log is not None:
                return log
            await asyncio.sleep(settings.TURN_POLL_SECONDS)

    def running_turn(self, conversation_id: uuid.UUID) -> uuid.UUID | None:
        return self._by_conversation.get(conversation_id)

    def stop(self, conversation_id: uuid.UUID) -> bool:
        """Stop the conversation's running turn, and its model call with it; `False` where none runs here.

        Callable from any thread: the task belongs to the event loop.
        """
        turn_id = self._by_conversation.get(conversation_id)
        task = self._tasks.get(turn_id) if turn_id else None
        if task is None:
            return False
        task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    async def drain(self) -> None:
        """Stop every turn, each keeping its partial text; for the shutdown of the process."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.set()
        await asyncio.gather(*self._settling, return_exceptions=True)
        self._stopping.clear()

    async def _keep_leases(self) -> None:
        """Renew the leases of running turns in one query, until none is left."""
        while self._tasks:
            await asyncio.sleep(settings.TURN_LEASE_SECONDS / 3)
            if turn_ids := list(self._tasks):
                try:
                    await in_database(renew_turns, turn_ids)
                except DatabaseError:
                    logger.exception("The leases of %d turns could not be renewed.", len(turn_ids))

    async def _run(self, request: TurnRequest, log: TurnLog) -> None:
        async def emit(event: Event) -> None:
            log.append(event)

        result: TurnResult | None = None
        try:
            result = await run_turn(request, emit)
        except asyncio.CancelledError:
            logger.info("turn stopped round_id=%s", request.turn_id)
        except Exception:  # the edge of a turn: nothing above awaits this task
            logger.exception("turn failed round_id=%s", request.turn_id)
        finally:
            self._end(request, log)
        if result is not None:
            settling = asyncio.create_task(
                self._settle(request, result), name=f"settling-{request.turn_id}"
            )
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)

    async def _settle(self, request: TurnRequest, result: TurnResult) -> None:
        """Others wait for their answers: what this turn leaves behind is kept when they have begun, one at a time."""
        try:
            await asyncio.wait_for(self._stopping.wait(), settings.AFTERWARDS_DELAY_SECONDS)
        except TimeoutError:
            pass
        try:
            async with self._afterwards:
                await settle(request, result)
            if not self._stopping.is_set():
                await write_title(request, result)
        except Exception:  # the edge of a turn: nothing awaits this task
            logger.exception("nothing was kept of the turn round_id=%s", request.turn_id)

    def _end(self, request: TurnRequest, log: TurnLog) -> None:
        turn_id, conversation_id = request.turn_id, request.conversation_id
        if turn_id is None or conversation_id is None:
            return
        if not log.is_complete:
            log.append(_internal_failure())
        self._tasks.pop(turn_id, None)
        if self._by_conversation.get(conversation_id) == turn_id:
            del self._by_conversation[conversation_id]
        loop = asyncio.get_running_loop()
        loop.call_later(settings.TURN_LOG_RETENTION_SECONDS, self._forget, turn_id, log)

    def _forget(self, turn_id: uuid.UUID, log: TurnLog) -> None:
        """Drop a log, unless the turn went on after a pause and has another one."""
        if self._logs.get(turn_id) is log:
            del self._logs[turn_id]


runner = Runner()


def _claim(
    conversation: Conversation, question: str, client_message_id: str, language: str
) -> tuple[ClaimedTurn, TurnRequest | None]:
    """Claim the turn and read what it starts from, in one step; no request where the message has its turn already."""
    claimed = claim_turn(
        conversation_id=conversation.pk, client_message_id=client_message_id, question=question
    )
    if not claimed.is_new:
        return claimed, None
    request = TurnRequest(
        deployment_id=conversation.deployment_id,
        question=question,
        language=language,
        turn_id=claimed.turn_id,
        conversation_id=conversation.pk,
        is_first=claimed.is_first,
    )
    try:
        with translation.override(language):
            return claimed, replace(request, context=load_context(request))
    except (
        Exception
    ):  # the turn is claimed: it reads again by itself, and ends by name where that fails too
        logger.exception("what the turn starts from could not be read round_id=%s", claimed.turn_id)
        return claimed, request


def _meta(claimed: ClaimedTurn, client_message_id: str, question: str) -> Meta:
    return Meta(
        turn_id=claimed.turn_id,
        conversation_id=claimed.conversation_id,
        client_message_id=client_message_id,
        title=claimed.title,
        question=question,
    )


def _internal_failure() -> Failure:
    return Failure("internal_error", _("Une erreur interne est survenue."), retryable=False)


def _stored_log(turn_id: uuid.UUID) -> TurnLog | None:
    """The events of a turn that has ended, told again from its rows; `None` while another process runs it."""
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    if turn.status == TurnStatus.RUNNING and turn.lease_expires_at > timezone.now():
        return None
    messages = _exchange(turn)
    log = TurnLog()
    log.append(_stored_meta(turn_id)[1])
    if turn.status == TurnStatus.AWAITING_APPROVAL:
        for pending in pending_calls(turn_id):
            log.append(awaiting(pending.call, round_index=turn.rounds))
    answer = messages.get(Role.ASSISTANT)
    if answer is not None:
        log.append(Sources(answer.sources))
        log.append(Delta(answer.content))
    log.append(_stored_end(turn, answer))
    return log


def _exchange(turn: Turn) -> dict[str, Message]:
    stored = Message.objects.for_conversation(turn.conversation_id).exchanges().filter(turn=turn)
    return {message.role: message for message in stored}


def _stored_meta(turn_id: uuid.UUID) -> tuple[ClaimedTurn, Meta]:
    """The first event of a turn, from its rows."""
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    messages = _exchange(turn)
    question = messages[Role.USER].content if Role.USER in messages else ""
    claimed = ClaimedTurn(
        turn_id=turn.pk,
        conversation_id=turn.conversation_id,
        title=turn.conversation.title,
        is_new=False,
        is_first=False,
    )
    return claimed, _meta(claimed, turn.client_message_id, question)


def _decided(
    turn_id: uuid.UUID, tool_call_id: str, is_approved: bool
) -> tuple[int, ClaimedTurn, Meta] | None:
    """Store a decision; after the last one, what the turn needs to go on."""
    if not decide_call(turn_id=turn_id, tool_call_id=tool_call_id, is_approved=is_approved):
        return None
    deployment_id = Conversation.objects.values_list("deployment_id", flat=True).get(turns=turn_id)
    return deployment_id, *_stored_meta(turn_id)


def _stored_end(turn: Turn, answer: Message | None) -> Event:
    if turn.status == TurnStatus.FAILED or (answer is None and turn.status == TurnStatus.DONE):
        return replace(_internal_failure(), code=turn.error_code or "internal_error")
    content = answer.content if answer else ""
    return Done(
        status=ENDS.get(TurnStatus(turn.status), "interrupted"),
        answer_source=turn.answer_source,
        model=turn.model,
        message_id=answer.pk if answer else None,
        content=content,
        html=render_answer(
            content,
            turn_id=str(turn.pk),
            source_numbers={source["n"] for source in answer.sources} if answer else set(),
        ),
        title=turn.conversation.title,
        agent=turn.answered_by,
    )
