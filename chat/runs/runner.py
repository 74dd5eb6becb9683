"""The turns that this process runs, their events, and what readers are told of them and of those that others run.

A turn is a task of this process, not of a socket: a reader that goes away ends its following, never the turn. Its log
is kept while it runs and shortly after, for readers that re-attach; later they are told from its rows. A turn whose
process died is interrupted when its lease runs out, and only its owner runs it again. Other processes see nothing of a
log, or where there is Redis its streams (`chat.runs.redis_log`): the backend of `EVENT_LOGS`. Event ids count from 1
within a run, and from the next multiple of `EVENTS_PER_RUN` in another run.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone, translation

from agents.cache import BackendHandler
from agents.database import first_line, in_database, is_surprising
from agents.errors import ApplicationError
from chat.errors import (
    ConversationNotFoundError,
    OverloadedError,
    ServerStoppingError,
    TurnNotLastError,
    TurnRunningError,
    TurnTakenOverError,
)
from chat.models import Conversation, Message, Turn, TurnStatus
from chat.protocol import FINAL_EVENTS, AskFrame, Beat, Delta, Done, Event, Failure, Sources
from chat.runs.afterwards import settle, write_with_model
from chat.telemetry import REFUSED
from chat.thread.messages import exchange_of, still_there
from chat.thread.rounds import BY_A_PERSON, TURN_LEASE_SECONDS, decide_call, pending_calls
from chat.thread.turns import (
    ClaimedTurn,
    claim_turn,
    fell_with_the_storage,
    interrupt_stale_turns,
    renew_turns,
    reopen_turn,
    request_stop,
    running_turns,
    wanted_turns,
)
from chat.turn.path import run_turn
from chat.turn.prompt import load_context
from chat.turn.tool_loop import awaiting
from chat.turn.values import TurnRequest, TurnResult, shown_reading

#: A follower hears something at least this often: proxies cut what is silent, the strictest of the samples after 30 s.
BEAT_SECONDS = 8.0
#: How long a finished turn's event log stays in memory for a late re-attach.
TURN_LOG_RETENTION_SECONDS = 60.0

NumberedEvent = tuple[int, Event]

#: No run comes near it: a turn is bounded in time and in tokens. A reader of an earlier run is below, and is told all.
EVENTS_PER_RUN = 1_000_000


class TurnLog:
    """The events of one run of a turn, in order, with a wake-up for whoever follows."""

    def __init__(self, run: int = 0) -> None:
        self.run = run
        self.events: list[Event] = []
        self.is_lost = False
        self._before = run * EVENTS_PER_RUN
        self._changed = asyncio.Event()

    @property
    def is_complete(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], FINAL_EVENTS)

    def append(self, event: Event) -> None:
        self.events.append(event)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def lose(self) -> None:
        """Mark the log as incomplete: its followers must read the turn elsewhere."""
        self.is_lost = True
        self._changed.set()

    async def follow(self, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """Yield the events after `after` as they come, joined, to the last (again, if all were seen), or until it is lost."""
        position = max(0, after - self._before)
        while True:
            changed = self._changed
            if self.is_lost:
                return
            if self.is_complete:
                position = min(position, len(self.events) - 1)
            while position < len(self.events):
                position, event = self._next(position)
                yield self._before + position, event
                if isinstance(event, FINAL_EVENTS):
                    return
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await changed.wait()
            except TimeoutError:
                yield self._before + position, Beat()

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


class EventLogs:
    """The logs of the turns that this process runs, and of those of others that it follows. For the event loop."""

    def __init__(self) -> None:
        self._held: dict[uuid.UUID, TurnLog] = {}
        self._elsewhere: WeakValueDictionary[tuple[uuid.UUID, int], TurnLog] = WeakValueDictionary()

    def open(self, turn_id: uuid.UUID, *, run: int = 0) -> TurnLog:
        """The log of a run that begins here."""
        log = self._held[turn_id] = TurnLog(run)
        return log

    def held(self, turn_id: uuid.UUID) -> TurnLog | None:
        return self._held.get(turn_id)

    def drop(self, turn_id: uuid.UUID, log: TurnLog) -> None:
        """Remove a log, unless a newer run of the turn has replaced it."""
        if self._held.get(turn_id) is log:
            del self._held[turn_id]

    def elsewhere(self, turn_id: uuid.UUID, *, run: int) -> TurnLog:
        """The log of a run in another process, while somebody holds it; it is lost where some of it cannot be seen."""
        log = self._elsewhere.get((turn_id, run))
        if log is None or log.is_lost:
            log = self._elsewhere[turn_id, run] = TurnLog(run)
        return log

    def followed(self) -> dict[tuple[uuid.UUID, int], TurnLog]:
        """The runs of other processes that somebody follows, by turn and run."""
        return {key: log for key, log in self._elsewhere.items() if not (log.is_complete or log.is_lost)}

    async def aclose(self) -> None:
        """Write what is waiting, within a bound, and let go of connections."""
        return None


_backends = BackendHandler("EVENT_LOGS", EventLogs)


#: Within this time a process sees that an answer of its own is to be stopped, when that was asked of another one.
TURN_STOP_SECONDS = 1.0
#: How often a reader of a turn that another process runs looks whether it has ended.
TURN_POLL_SECONDS = 0.5

#: Questions wait so long for a place before they are told (503, `overloaded`).
OVERLOAD_WAIT_SECONDS = 1.3

logger = logging.getLogger(__name__)

#: Questions of one process between their arrival and their first text: some 30 ms of it each (`benchmarks/load`).
TURNS_PREPARED_AT_ONCE = 4


#: Claims a turn in the database; this process runs what it is to answer where `ClaimedTurn.is_new`.
Claim = Callable[[], tuple[ClaimedTurn, TurnRequest]]


class Runner:
    """Every turn that this process runs, and what it follows of those that others run."""

    def __init__(self, logs: EventLogs | None = None) -> None:
        self._given_logs = logs
        self._tasks: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._starting: set[asyncio.Task[Any]] = set()
        self._by_conversation: dict[uuid.UUID, uuid.UUID] = {}
        self._places = asyncio.Semaphore(TURNS_PREPARED_AT_ONCE)
        self._afterwards = asyncio.Semaphore(1)
        self._settling: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._is_draining = False
        self._heartbeat: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def _logs(self) -> EventLogs:
        return self._given_logs or _backends["default"]

    async def start(
        self, conversation: Conversation, asked: AskFrame, *, language: str, place: ExitStack | None = None
    ) -> uuid.UUID:
        """Claim the turn and start it, also where the caller goes away; the same client message gives the same turn.
        Raises `TurnRunningError`, `ServerStoppingError`, and what `place` raises where no place is given.
        """

        def claim() -> tuple[ClaimedTurn, TurnRequest]:
            claimed = claim_turn(
                conversation_id=conversation.pk,
                client_message_id=asked.client_message_id,
                question=asked.message,
                replaces=asked.replaces,
            )
            if not claimed.is_new and fell_with_the_storage(claimed.turn.pk):
                # Sent again because of it: the same turn, run anew, unless the conversation has gone on since.
                with suppress(TurnNotLastError):
                    return _stored_claim(claimed.turn.pk, language, is_new=reopen_turn(claimed.turn.pk))
            request = TurnRequest.of(conversation, claimed.question, language, claimed)
            return claimed, replace(request, as_typed=asked.as_typed)

        async with self.place() if place is None else nullcontext(place) as own_place:
            return (await self._to_its_end(self._begin(conversation.pk, claim, own_place))).turn.pk

    @asynccontextmanager
    async def place(self) -> AsyncIterator[ExitStack]:
        """A place until the turn's first text, taken before all else. Raises `OverloadedError` where none gets free."""
        try:
            async with asyncio.timeout(OVERLOAD_WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            REFUSED.inc()
            raise OverloadedError from None
        with ExitStack() as place:
            place.callback(self._places.release)
            yield place

    async def decide(
        self, turn: Turn, *, tool_call_id: str, is_approved: bool, language: str, why_denied: str = BY_A_PERSON
    ) -> bool:
        """Store a decision on a tool; the last one makes the turn go on here. Raises `ApprovalOverError`."""

        def decide() -> tuple[ClaimedTurn, TurnRequest]:
            is_last = decide_call(
                turn_id=turn.pk, tool_call_id=tool_call_id, is_approved=is_approved, why_denied=why_denied
            )
            claimed, request = _stored_claim(turn.pk, language, is_new=is_last)
            return claimed, replace(request, is_resumed=True)

        decided = await self._to_its_end(self._begin(turn.conversation_id, decide))
        return decided.is_new

    async def retry(self, turn: Turn, *, language: str) -> uuid.UUID:
        """Run a broken turn again, under its own id, unless it runs or is answered. Raises as `reopen_turn` does."""

        def reopen() -> tuple[ClaimedTurn, TurnRequest]:
            return _stored_claim(turn.pk, language, is_new=reopen_turn(turn.pk))

        # It may itself be the one whose process died.
        await in_database(interrupt_stale_turns, turn.conversation_id)
        await self._to_its_end(self._begin(turn.conversation_id, reopen))
        return turn.pk

    async def _to_its_end(self, starting: Coroutine[Any, Any, ClaimedTurn]) -> ClaimedTurn:
        """Await the start of a turn to its end, also when the caller is cancelled."""
        if self._is_draining:
            starting.close()
            raise ServerStoppingError("draining")
        task = asyncio.create_task(starting)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return await asyncio.shield(task)

    async def _begin(self, conversation_id: uuid.UUID, claim: Claim, place: ExitStack | None = None) -> ClaimedTurn:
        """Claim a turn in the database and run it here where the claim is new; every turn starts here."""
        with still_there():
            try:
                claimed, request = await in_database(_opened, claim)
            except TurnRunningError:
                # Unless it only seems to run: its process died.
                if not await in_database(interrupt_stale_turns, conversation_id):
                    raise
                claimed, request = await in_database(_opened, claim)
        if request is not None:
            self._launch(claimed, request, place.pop_all() if place else ExitStack())
        return claimed

    def _launch(self, claimed: ClaimedTurn, request: TurnRequest, place: ExitStack) -> None:
        turn = claimed.turn
        log = self._logs.open(turn.pk, run=turn.run)
        log.append(claimed.first_event())
        task = asyncio.create_task(self._run(request, log, place), name=f"turn-{turn.pk}")
        task.add_done_callback(lambda _task: place.close())
        # A model that rewrites the question, or embeds it, may take its time: nobody else is to wait for that.
        asyncio.get_running_loop().call_later(OVERLOAD_WAIT_SECONDS, place.close)
        self._tasks[turn.pk] = task
        self._by_conversation[turn.conversation_id] = turn.pk
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._watch_own(), name="turn-heartbeat")

    async def follow(self, turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The events of a turn after the given id: live, from memory, or (then anew, with `meta`) from the database."""
        log = self._logs.held(turn_id)
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
                await in_database(interrupt_stale_turns, stored.conversation_id)
                stored = await in_database(read_turn, turn_id)
        held = self._logs.held(turn_id)
        if held is not None and held.run == stored.run and not held.is_lost:
            return held, after
        if stored.log is not None:
            return stored.log, 0
        log = self._logs.elsewhere(turn_id, run=stored.run)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch_others(), name="turn-watch")
        return log, after

    async def _watch_others(self) -> None:
        """Check in one query whether the followed turns of other processes still run."""
        missed: set[tuple[uuid.UUID, int]] = set()
        while followed := self._logs.followed():
            try:
                running = await in_database(running_turns, [turn_id for turn_id, _run in followed])
            except DatabaseError as error:
                said, cause = "%d turns of other processes are not seen: %s", first_line(error)
                logger.warning(said, len(followed), cause, exc_info=is_surprising(error))
            else:
                over = {key for key in followed if running.get(key[0]) != key[1]}
                # Its last event comes right after its rows: what is missing at the second look is not coming.
                for key in over & missed:
                    followed[key].lose()
                missed = over
            del followed
            await asyncio.sleep(TURN_POLL_SECONDS)

    def running_turn(self, conversation_id: uuid.UUID) -> uuid.UUID | None:
        return self._by_conversation.get(conversation_id)

    def stop(self, conversation_id: uuid.UUID) -> bool:
        """Stop the conversation's turn that runs here, from any thread; `False` where none does."""
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
        return await in_database(request_stop, conversation_id)

    async def drain(self, seconds: float = 0.0) -> None:
        """Refuse new questions, wait at most `seconds` for running turns, then stop them with partial text."""
        self._is_draining = True
        await asyncio.gather(*self._starting, return_exceptions=True)
        if tasks := list(self._tasks.values()):
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.set()
        await asyncio.gather(*self._settling, return_exceptions=True)
        self._stopping.clear()
        await self._logs.aclose()
        self._is_draining = False

    async def reap(self) -> None:
        """Interrupt turns of dead processes, now and from time to time, until cancelled."""
        while True:
            try:
                if count := await in_database(interrupt_stale_turns):
                    logger.warning("%d answers of a process that died were interrupted.", count)
            except DatabaseError as error:
                said = "The turns of dead processes could not be looked for: %s"
                logger.warning(said, first_line(error), exc_info=is_surprising(error))
            await asyncio.sleep(TURN_LEASE_SECONDS / 3)

    async def _watch_own(self) -> None:
        """Renew the leases of this process's turns and stop the unwanted ones, until no turn runs."""
        loop = asyncio.get_running_loop()
        lease = TURN_LEASE_SECONDS / 3
        renewal = loop.time() + lease
        while self._tasks:
            await asyncio.sleep(min(lease, TURN_STOP_SECONDS))
            turn_ids = list(self._tasks)
            try:
                if loop.time() >= renewal:
                    await in_database(renew_turns, turn_ids)
                    renewal = loop.time() + lease
                wanted = await in_database(wanted_turns, turn_ids)
            except DatabaseError as error:
                said = "The leases of %d turns could not be renewed: %s"
                cause = first_line(error)
                logger.warning(said, len(turn_ids), cause, exc_info=is_surprising(error))
                continue
            for turn_id in turn_ids:
                self._end_unwanted(turn_id, wanted.get(turn_id))

    def _end_unwanted(self, turn_id: uuid.UUID, run: int | None) -> None:
        """Stop a turn that was stopped, deleted or taken over elsewhere."""
        task, log = self._tasks.get(turn_id), self._logs.held(turn_id)
        if task is None or log is None or log.run == run:
            return
        if run is not None:
            logger.warning("turn was taken over by another process round_id=%s", turn_id)
            log.lose()
        task.cancel()

    async def _run(self, request: TurnRequest, log: TurnLog, place: ExitStack) -> None:
        async def emit(event: Event) -> None:
            place.close()
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
            settling = asyncio.create_task(self._settle(request, result), name=f"settling-{request.turn_id}")
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)

    async def _settle(self, request: TurnRequest, result: TurnResult) -> None:
        """Others wait for their answers: what this turn leaves behind is kept when they have begun, one at a time."""
        try:
            await asyncio.wait_for(self._stopping.wait(), settings.AFTERWARDS_DELAY_SECONDS)
        except TimeoutError:
            pass
        try:
            with still_there():
                async with self._afterwards:
                    await settle(request, result)
                if not self._stopping.is_set():
                    await write_with_model(request, result)
        except ConversationNotFoundError:
            logger.info("nothing is left of the turn round_id=%s", request.turn_id)
        except Exception:  # the edge of a turn: nothing awaits this task
            logger.exception("nothing was kept of the turn round_id=%s", request.turn_id)

    def _end(self, request: TurnRequest, log: TurnLog) -> None:
        turn_id, conversation_id = request.turn_id, request.conversation_id
        if turn_id is None or conversation_id is None:
            return
        if not log.is_complete and not log.is_lost:
            log.append(Failure.of_code(ApplicationError.code))
        self._tasks.pop(turn_id, None)
        if self._by_conversation.get(conversation_id) == turn_id:
            del self._by_conversation[conversation_id]
        loop = asyncio.get_running_loop()
        loop.call_later(TURN_LOG_RETENTION_SECONDS, self._logs.drop, turn_id, log)


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
    log.append(ClaimedTurn(turn, question, is_new=False).first_event())
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
        status=turn.status,
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


def _may_have_gone_on(log: TurnLog) -> bool:
    """Whether another process may have run the turn again after this run ended without an answer."""
    last = log.events[-1] if log.events else None
    return log.is_complete and not (isinstance(last, Done) and last.status == "done")


def _opened(claim: Claim) -> tuple[ClaimedTurn, TurnRequest | None]:
    """Claim a turn and read its context in one step; the request is `None` where another process runs the turn."""
    claimed, request = claim()
    if not claimed.is_new:
        return claimed, None
    try:
        with still_there(), translation.override(request.language):
            return claimed, replace(request, context=load_context(request))
    except (DatabaseError, ConversationNotFoundError) as error:
        logger.warning("what a turn starts from could not be read round_id=%s: %s", claimed.turn.pk, error)
        return claimed, request
    except Exception:  # it is claimed: it reads again by itself, and ends by name where that fails
        logger.exception("what the turn starts from could not be read round_id=%s", claimed.turn.pk)
        return claimed, request


def _stored_claim(turn_id: uuid.UUID, language: str, *, is_new: bool) -> tuple[ClaimedTurn, TurnRequest]:
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    asked, _answer = exchange_of(turn)
    claimed = ClaimedTurn(turn, asked.content if asked else "", is_new=is_new)
    return claimed, TurnRequest.of(turn.conversation, claimed.question, language, claimed)


runner = Runner()
