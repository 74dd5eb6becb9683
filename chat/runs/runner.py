"""Running turns, their event logs, following and stopping them.

A turn is a task of this process, not of a socket: a reader that goes away ends its following, never the turn. Its log
(`chat.runs.event_log.memory`) is kept while it runs and shortly after, so that a reader re-attaches after the last event it saw, in
this process or in another; what is older is told again from the database, whole: a `meta` begins an answer anew.

A turn whose process died is interrupted when its lease runs out, and keeps the text that its log still has. Only its owner
runs it again (`Runner.retry`): under its own id, with one question and in the end one answer.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from agents.bridges import in_database
from chat.exceptions import ServerStoppingError, TurnTakenOverError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Failure, Meta, Sources
from chat.runs.afterwards import settle, write_summary
from chat.runs.event_log.memory import EventLogs, NumberedEvent, TurnLog, event_logs
from chat.runs.titles import write_title
from chat.thread.messages import (
    ClaimedTurn,
    claim_turn,
    interrupt_stale_turns,
    renew_turns,
    reopen_turn,
    request_stop,
    running_turns,
    wanted_turns,
)
from chat.thread.rounds import decide_call, pending_calls
from chat.turn.context import load_context
from chat.turn.path import ENDS, run_turn
from chat.turn.tool_loop import awaiting
from chat.turn.values import TurnRequest, TurnResult

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Runner:
    """Every turn that this process runs, and what it follows of those that others run."""

    def __init__(self, logs: EventLogs | None = None) -> None:
        self._given_logs = logs
        self._tasks: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._starting: set[asyncio.Task[Any]] = set()
        self._by_conversation: dict[uuid.UUID, uuid.UUID] = {}
        self._afterwards = asyncio.Semaphore(1)
        self._settling: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._hurried = asyncio.Event()
        self._is_draining = False
        self._heartbeat: asyncio.Task[None] | None = None
        self._elsewhere: WeakValueDictionary[uuid.UUID, TurnLog] = WeakValueDictionary()
        self._watching: asyncio.Task[None] | None = None

    @property
    def _logs(self) -> EventLogs:
        return self._given_logs or event_logs()

    async def start(
        self,
        conversation: Conversation,
        *,
        question: str,
        client_message_id: str,
        language: str,
        replaces: uuid.UUID | None = None,
    ) -> uuid.UUID:
        """Claim the turn and start it; the same client message again gives the same turn.

        With `replaces` it is another version of that turn. A caller that goes away meanwhile cancels nothing: a claimed
        turn is always started. Raises `TurnRunningError` while another turn of the conversation runs,
        `ServerStoppingError` when this process is about to end.
        """
        return await self._to_its_end(
            self._start(conversation, question, client_message_id, language, replaces)
        )

    async def _to_its_end(self, starting: Coroutine[Any, Any, T]) -> T:
        if self._is_draining:
            starting.close()
            raise ServerStoppingError("draining")
        task = asyncio.create_task(starting)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return await asyncio.shield(task)

    async def _start(
        self,
        conversation: Conversation,
        question: str,
        client_message_id: str,
        language: str,
        replaces: uuid.UUID | None,
    ) -> uuid.UUID:
        claimed, request = await in_database(
            _claim, conversation, question, client_message_id, language, replaces
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
        deciding = self._decide(turn, tool_call_id, is_approved, language)
        return await self._to_its_end(deciding) is not None

    async def _decide(
        self, turn: Turn, tool_call_id: str, is_approved: bool, language: str
    ) -> uuid.UUID | None:
        decided = await in_database(_decided, turn.pk, tool_call_id, is_approved)
        if decided is None:
            return None
        conversation, claimed, meta = decided
        request = TurnRequest.of(conversation, meta.question, language, claimed)
        self._launch(replace(request, is_resumed=True), claimed, meta)
        return turn.pk

    async def retry(self, turn: Turn, *, language: str) -> uuid.UUID:
        """Run an interrupted or failed turn again, under its own id: its question is asked once, and answered once.

        Where it runs already, or is answered, nothing happens: follow it. Raises `TurnNotLastError` where the
        conversation has gone on, `TurnRunningError` while another turn of it runs.
        """
        return await self._to_its_end(self._retry(turn, language))

    async def _retry(self, turn: Turn, language: str) -> uuid.UUID:
        reopened = await in_database(_reopened, turn.pk)
        if reopened is None:
            return turn.pk
        conversation, claimed, meta = reopened
        request = TurnRequest.of(conversation, meta.question, language, claimed)
        self._launch(request, claimed, meta)
        return turn.pk

    def _launch(self, request: TurnRequest, claimed: ClaimedTurn, meta: Meta) -> None:
        log = self._logs.open(claimed.turn_id, run=claimed.run)
        log.append(meta)
        task = asyncio.create_task(self._run(request, log), name=f"turn-{claimed.turn_id}")
        self._tasks[claimed.turn_id] = task
        self._by_conversation[claimed.conversation_id] = claimed.turn_id
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._watch_own(), name="turn-heartbeat")

    async def follow(self, turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The events of a turn after the given id: live, from memory, or from the database.

        Live ones go on from the id, here and in other processes. What is told from the database begins anew, with `meta`.
        """
        log = self._logs.held(turn_id)
        if log is None or _may_have_gone_on(log):
            log, after = await self._found(turn_id, after)
        async for numbered in log.follow(after):
            yield numbered
        while log.is_lost or not log.is_complete:
            # The process that ran it died or lost it, or what it told cannot be seen from here.
            if log.is_lost:
                await asyncio.sleep(settings.TURN_POLL_SECONDS)
            log, after = await self._found(turn_id, 0)
            async for numbered in log.follow(after):
                yield numbered

    async def _found(self, turn_id: uuid.UUID, after: int) -> tuple[TurnLog, int]:
        """The log of a turn as it stands now, and the id to go on from in it."""
        stored = await in_database(_stored, turn_id)
        held = self._logs.held(turn_id)
        if held is not None and held.run == stored.run and not held.is_lost:
            return held, after
        if stored.log is None:
            return self._running_elsewhere(turn_id, stored.run), after
        if after and (ended := await self._logs.ended(turn_id, run=stored.run)) is not None:
            return ended, after
        return stored.log, 0

    def _running_elsewhere(self, turn_id: uuid.UUID, run: int) -> TurnLog:
        log = self._elsewhere.get(turn_id)
        if log is None or log.is_lost or log.run != run:
            log = self._elsewhere[turn_id] = self._logs.elsewhere(turn_id, run=run)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch_others(), name="turn-watch")
        return log

    async def _watch_others(self) -> None:
        """Whether the turns that are followed here and run elsewhere still run, all in one query."""
        missed: set[uuid.UUID] = set()
        while followed := {i: log for i, log in self._elsewhere.items() if not log.is_complete}:
            try:
                running = await in_database(running_turns, list(followed))
            except DatabaseError:
                logger.exception("%d turns of other processes are not seen.", len(followed))
            else:
                over = {i for i, log in followed.items() if running.get(i) != log.run}
                # Its last event comes right after its rows: what is missing at the second look is not coming.
                for turn_id in over & missed:
                    followed[turn_id].lose()
                    self._elsewhere.pop(turn_id, None)
                missed = over
            del followed
            await asyncio.sleep(settings.TURN_POLL_SECONDS)

    def running_turn(self, conversation_id: uuid.UUID) -> uuid.UUID | None:
        return self._by_conversation.get(conversation_id)

    def stop(self, conversation_id: uuid.UUID) -> bool:
        """Stop the conversation's turn that runs here, and its model call with it; `False` where none does.

        Callable from any thread: the task belongs to the event loop.
        """
        turn_id = self._by_conversation.get(conversation_id)
        task = self._tasks.get(turn_id) if turn_id else None
        if task is None:
            return False
        task.get_loop().call_soon_threadsafe(task.cancel)
        return True

    async def stop_anywhere(self, conversation_id: uuid.UUID) -> bool:
        """Stop the conversation's running turn, whichever process runs it; there within `TURN_STOP_SECONDS`."""
        if self.stop(conversation_id):
            return True
        if not await in_database(request_stop, conversation_id):
            return False
        await self._logs.ring()
        return True

    async def drain(self, seconds: float = 0.0) -> None:
        """Let running turns end for so long, then stop them, each keeping its partial text; for the end of the process.

        Questions that come meanwhile are refused.
        """
        self._is_draining = True
        hurried = asyncio.create_task(self._hurried.wait())
        deadline = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*self._starting, return_exceptions=True)
        while (tasks := list(self._tasks.values())) and not hurried.done():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait([*tasks, hurried], timeout=left, return_when="FIRST_COMPLETED")
        hurried.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.set()
        await asyncio.gather(*self._settling, return_exceptions=True)
        self._stopping.clear()
        await self._logs.aclose()
        self._is_draining = False
        self._hurried.clear()

    def hurry(self) -> None:
        """End a draining now; callable from a signal handler of the event loop's thread."""
        self._hurried.set()

    async def reap(self) -> None:
        """Interrupt turns of dead processes, now and from time to time, until cancelled."""
        while True:
            try:
                if count := await in_database(interrupt_stale_turns):
                    logger.warning("%d answers of a process that died were interrupted.", count)
            except DatabaseError:
                logger.exception("The turns of dead processes could not be looked for.")
            await asyncio.sleep(settings.TURN_LEASE_SECONDS / 3)

    async def _watch_own(self) -> None:
        """Renew the leases of running turns, and see which of them are to be stopped, until none is left."""
        loop = asyncio.get_running_loop()
        lease = settings.TURN_LEASE_SECONDS / 3
        renewal = loop.time() + lease
        while self._tasks:
            await self._logs.rung(min(lease, settings.TURN_STOP_SECONDS))
            turn_ids = list(self._tasks)
            if not turn_ids:
                continue
            try:
                if loop.time() >= renewal:
                    await in_database(renew_turns, turn_ids)
                    renewal = loop.time() + lease
                wanted = await in_database(wanted_turns, turn_ids)
            except DatabaseError:
                logger.exception("The leases of %d turns could not be renewed.", len(turn_ids))
                continue
            for turn_id in turn_ids:
                self._end_unwanted(turn_id, wanted.get(turn_id))

    def _end_unwanted(self, turn_id: uuid.UUID, run: int | None) -> None:
        """Stop a turn that is not to go on here: stopped or deleted elsewhere, or taken for dead and run again."""
        task, log = self._tasks.get(turn_id), self._logs.held(turn_id)
        if task is None or log is None or log.run == run:
            return
        if run is not None:
            logger.warning("turn was taken over by another process round_id=%s", turn_id)
            log.lose()
        task.cancel()

    async def _run(self, request: TurnRequest, log: TurnLog) -> None:
        async def emit(event: Event) -> None:
            if isinstance(event, Failure) and event.code == TurnTakenOverError.code:
                # Its readers are told by the process that runs it now.
                log.lose()
            else:
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
                await write_summary(request, result)
        except Exception:  # the edge of a turn: nothing awaits this task
            logger.exception("nothing was kept of the turn round_id=%s", request.turn_id)

    def _end(self, request: TurnRequest, log: TurnLog) -> None:
        turn_id, conversation_id = request.turn_id, request.conversation_id
        if turn_id is None or conversation_id is None:
            return
        if not log.is_complete and not log.is_lost:
            log.append(_internal_failure())
        self._tasks.pop(turn_id, None)
        if self._by_conversation.get(conversation_id) == turn_id:
            del self._by_conversation[conversation_id]
        loop = asyncio.get_running_loop()
        loop.call_later(settings.TURN_LOG_RETENTION_SECONDS, self._logs.drop, turn_id, log)


runner = Runner()


def _claim(
    conversation: Conversation,
    question: str,
    client_message_id: str,
    language: str,
    replaces: uuid.UUID | None,
) -> tuple[ClaimedTurn, TurnRequest | None]:
    """Claim the turn and read what it starts from, in one step; no request where the message has its turn already."""
    claimed = claim_turn(
        conversation_id=conversation.pk,
        client_message_id=client_message_id,
        question=question,
        replaces=replaces,
    )
    if not claimed.is_new:
        return claimed, None
    request = TurnRequest.of(conversation, question, language, claimed)
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


def _may_have_gone_on(log: TurnLog) -> bool:
    """A run that ended without an answer may have been followed by another one, elsewhere."""
    last = log.events[-1] if log.events else None
    return log.is_complete and not (isinstance(last, Done) and last.status == "done")


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the rows say of a turn: its events told again, none of them while a process runs it."""

    run: int
    log: TurnLog | None


def _stored(turn_id: uuid.UUID) -> _Stored:
    """Raises `Turn.DoesNotExist` where the turn was deleted."""
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    if turn.status == TurnStatus.RUNNING:
        if turn.lease_expires_at > timezone.now():
            return _Stored(turn.run, None)
        interrupt_stale_turns(turn.conversation_id)
        turn.refresh_from_db(fields=["status"])
    messages = _exchange(turn)
    log = TurnLog(turn.run)
    log.append(_stored_meta(turn_id)[1])
    if turn.status == TurnStatus.AWAITING_APPROVAL:
        for pending in pending_calls(turn_id):
            log.append(awaiting(pending.call, round_index=turn.rounds))
    answer = messages.get(Role.ASSISTANT)
    if answer is not None:
        log.append(Sources(answer.sources))
        log.append(Delta(answer.content))
    log.append(_stored_end(turn, answer))
    return _Stored(turn.run, log)


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
        run=turn.run,
    )
    return claimed, _meta(claimed, turn.client_message_id, question)


def _decided(
    turn_id: uuid.UUID, tool_call_id: str, is_approved: bool
) -> tuple[Conversation, ClaimedTurn, Meta] | None:
    """Store a decision; after the last one, what the turn needs to go on."""
    if not decide_call(turn_id=turn_id, tool_call_id=tool_call_id, is_approved=is_approved):
        return None
    return Conversation.objects.get(turns=turn_id), *_stored_meta(turn_id)


def _reopened(turn_id: uuid.UUID) -> tuple[Conversation, ClaimedTurn, Meta] | None:
    """Reopen a turn; what it needs to run again, or nothing where it is to be followed only."""
    if not reopen_turn(turn_id):
        return None
    return Conversation.objects.get(turns=turn_id), *_stored_meta(turn_id)


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
        turn_id=str(turn.pk),
        source_numbers=[source["n"] for source in answer.sources] if answer else [],
        title=turn.conversation.title,
        agent=turn.answered_by,
    )
