"""The turns that this process runs: started, run again, decided on, stopped, and brought to their end before it.

A turn is a task of this process, not of a socket. Its log is kept while it runs and shortly after, for readers that
re-attach; a turn whose process died is interrupted when its lease runs out, and only its owner runs it again.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.utils import translation

from agents.database import first_line, in_database, is_surprising
from chat.errors import (
    ConversationNotFoundError,
    OverloadedError,
    ServerStoppingError,
    TurnNotLastError,
    TurnRunningError,
    TurnTakenOverError,
)
from chat.models import Conversation, Turn
from chat.protocol import AskFrame, Event, Failure
from chat.runs.afterwards import settle, write_summary, write_title
from chat.runs.event_log.base import (
    TURN_LOG_RETENTION_SECONDS,
    TURN_STOP_SECONDS,
    EventLogs,
    NumberedEvent,
    TurnLog,
    event_logs,
)
from chat.runs.following import Following, internal_failure, settle_stale_turns
from chat.telemetry import REFUSED
from chat.thread.branches import exchange_of, still_there
from chat.thread.rounds import BY_A_PERSON, TURN_LEASE_SECONDS, decide_call
from chat.thread.turns import (
    ClaimedTurn,
    claim_turn,
    fell_with_the_storage,
    renew_turns,
    reopen_turn,
    request_stop,
    wanted_turns,
)
from chat.turn.path import run_turn
from chat.turn.prompt import load_context
from chat.turn.values import TurnRequest, TurnResult

#: Questions wait so long for a place before they are told (503, `overloaded`).
OVERLOAD_WAIT_SECONDS = 1.3

logger = logging.getLogger(__name__)

#: Questions of one process between their arrival and their first text: some 30 ms of it each (`benchmarks/load`).
TURNS_PREPARED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn of a conversation; this process runs it where `ClaimedTurn.is_new`."""

    conversation: Conversation
    turn: ClaimedTurn
    #: It waited for a person, and goes on with the round that it planned.
    is_resumed: bool = False
    as_typed: bool = False


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
        self._following = Following(lambda: self._logs)

    @property
    def _logs(self) -> EventLogs:
        return self._given_logs or event_logs()

    async def start(
        self, conversation: Conversation, asked: AskFrame, *, language: str, place: ExitStack | None = None
    ) -> uuid.UUID:
        """Claim the turn and start it, also where the caller goes away; the same client message again gives the same
        turn.

        Raises `TurnRunningError`, `ServerStoppingError`, and what `place` raises where no place is given.
        """

        def claim() -> Claim:
            turn = claim_turn(
                conversation_id=conversation.pk,
                client_message_id=asked.client_message_id,
                question=asked.message,
                replaces=asked.replaces,
            )
            if not turn.is_new and fell_with_the_storage(turn.turn_id):
                # Sent again because of it: the same turn, run anew, unless the conversation has gone on since.
                with suppress(TurnNotLastError):
                    return _stored_claim(turn.turn_id, is_new=reopen_turn(turn.turn_id))
            return Claim(conversation, turn, as_typed=asked.as_typed)

        if place is not None:
            return (await self._to_its_end(self._begin(conversation.pk, claim, language, place))).turn_id
        async with self.place() as place:
            return (await self._to_its_end(self._begin(conversation.pk, claim, language, place))).turn_id

    @asynccontextmanager
    async def place(self) -> AsyncIterator[ExitStack]:
        """A place for the preparation of a turn, until its first text; taken before anything is counted or opened.

        Raises `OverloadedError` where other questions have all places and none of them gets on.
        """
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

        def decide() -> Claim:
            is_last = decide_call(
                turn_id=turn.pk, tool_call_id=tool_call_id, is_approved=is_approved, why_denied=why_denied
            )
            return replace(_stored_claim(turn.pk, is_new=is_last), is_resumed=True)

        decided = await self._to_its_end(self._begin(turn.conversation_id, decide, language))
        return decided.is_new

    async def retry(self, turn: Turn, *, language: str) -> uuid.UUID:
        """Run an interrupted or failed turn again, under its own id; nothing where it runs or is answered.

        Raises `TurnNotLastError` where the conversation has gone on, `TurnRunningError` while another turn runs.
        """

        def reopen() -> Claim:
            return _stored_claim(turn.pk, is_new=reopen_turn(turn.pk))

        # It may itself be the one whose process died.
        await settle_stale_turns(turn.conversation_id)
        await self._to_its_end(self._begin(turn.conversation_id, reopen, language))
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

    async def _begin(
        self, conversation_id: uuid.UUID, claim: Callable[[], Claim], language: str, place: ExitStack | None = None
    ) -> ClaimedTurn:
        """Claim a turn in the database and run it here where the claim is new; every turn starts here."""
        with still_there():
            try:
                claimed, request = await in_database(_opened, claim, language)
            except TurnRunningError:
                # Unless it only seems to run: its process died.
                if not await settle_stale_turns(conversation_id):
                    raise
                claimed, request = await in_database(_opened, claim, language)
        if request is not None:
            self._launch(claimed, request, place.pop_all() if place else ExitStack())
        return claimed

    def _launch(self, claimed: ClaimedTurn, request: TurnRequest, place: ExitStack) -> None:
        log = self._logs.open(claimed.turn_id, run=claimed.run)
        log.append(claimed.first_event())
        task = asyncio.create_task(self._run(request, log, place), name=f"turn-{claimed.turn_id}")
        task.add_done_callback(lambda _task: place.close())
        # A model that rewrites the question, or embeds it, may take its time: nobody else is to wait for that.
        asyncio.get_running_loop().call_later(OVERLOAD_WAIT_SECONDS, place.close)
        self._tasks[claimed.turn_id] = task
        self._by_conversation[claimed.conversation_id] = claimed.turn_id
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._watch_own(), name="turn-heartbeat")

    def follow(self, turn_id: uuid.UUID, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The events of a turn after the given id (`Following.follow`), whichever process runs it or ran it."""
        return self._following.follow(turn_id, after)

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
        if not await in_database(request_stop, conversation_id):
            return False
        await self._logs.ring()
        return True

    async def drain(self, seconds: float = 0.0) -> None:
        """Refuse new questions, wait at most `seconds` for running turns, then stop them with partial text."""
        self._is_draining = True
        deadline = asyncio.get_running_loop().time() + seconds
        await asyncio.gather(*self._starting, return_exceptions=True)
        while tasks := list(self._tasks.values()):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait(tasks, timeout=left, return_when="FIRST_COMPLETED")
        tasks = list(self._tasks.values())
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
                if count := await settle_stale_turns():
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
            await self._logs.rung(min(lease, TURN_STOP_SECONDS))
            turn_ids = list(self._tasks)
            if not turn_ids:
                continue
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
                    await write_title(request, result)
                    await write_summary(request, result)
        except ConversationNotFoundError:
            logger.info("nothing is left of the turn round_id=%s", request.turn_id)
        except Exception:  # the edge of a turn: nothing awaits this task
            logger.exception("nothing was kept of the turn round_id=%s", request.turn_id)

    def _end(self, request: TurnRequest, log: TurnLog) -> None:
        turn_id, conversation_id = request.turn_id, request.conversation_id
        if turn_id is None or conversation_id is None:
            return
        if not log.is_complete and not log.is_lost:
            log.append(internal_failure())
        self._tasks.pop(turn_id, None)
        if self._by_conversation.get(conversation_id) == turn_id:
            del self._by_conversation[conversation_id]
        loop = asyncio.get_running_loop()
        loop.call_later(TURN_LOG_RETENTION_SECONDS, self._logs.drop, turn_id, log)


def _opened(claim: Callable[[], Claim], language: str) -> tuple[ClaimedTurn, TurnRequest | None]:
    """Claim a turn and read its context in one step; the request is `None` where another process runs the turn."""
    claimed = claim()
    turn = claimed.turn
    if not turn.is_new:
        return turn, None
    request = TurnRequest.of(claimed.conversation, turn.question, language, turn)
    request = replace(request, is_resumed=claimed.is_resumed, as_typed=claimed.as_typed)
    try:
        with still_there(), translation.override(language):
            return turn, replace(request, context=load_context(request))
    except (DatabaseError, ConversationNotFoundError) as error:
        logger.warning("what a turn starts from could not be read round_id=%s: %s", turn.turn_id, error)
        return turn, request
    except Exception:  # it is claimed: it reads again by itself, and ends by name where that fails
        logger.exception("what the turn starts from could not be read round_id=%s", turn.turn_id)
        return turn, request


def _stored_claim(turn_id: uuid.UUID, *, is_new: bool) -> Claim:
    turn = Turn.objects.select_related("conversation").get(pk=turn_id)
    asked, _answer = exchange_of(turn)
    question = asked.content if asked else ""
    return Claim(turn.conversation, ClaimedTurn.of(turn, question, is_new=is_new))


runner = Runner()
