"""Event logs that other web processes can follow: a Redis stream for each run of a turn.

The process that runs a turn follows its own memory; one task copies what is new to Redis in one round trip, so that a
token waits for nobody and Redis that dies ends no turn. Another process reads all streams that it follows in one. An
entry holds the events up to its id: a text for a `Delta`, `[name, fields]` for the others. Streams die by themselves.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from chat.protocol import Delta, Done, Event, Failure, Meta, Restart, Sources, Tool
from chat.runs.runner import EVENTS_PER_RUN, TURN_LOG_RETENTION_SECONDS, EventLogs, TurnLog

#: With Redis: how often what was answered meanwhile is copied there for the other web processes, ...
EVENT_LOG_FLUSH_SECONDS = 0.05
#: ... how long an answer that was never finished is kept there, and about how many pieces of one, ...
EVENT_LOG_TTL_SECONDS = 3600
EVENT_LOG_MAX_ENTRIES = 10_000
#: ... how long Redis may take, and the longest pause before it is tried again.
EVENT_LOG_TIMEOUT_SECONDS = 2.0
EVENT_LOG_RETRY_CEILING_SECONDS = 5.0

logger = logging.getLogger(__name__)

_EVENTS = b"events"
#: What a broken connection raises, besides what Redis answers.
_TROUBLE = (redis.RedisError, OSError, TimeoutError)


class RedisEventLogs(EventLogs):
    def __init__(self, *, url: str) -> None:
        super().__init__()
        self._url = url
        self._client: Any = None
        self._copies: dict[uuid.UUID, _Copy] = {}
        self._writing: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    def open(self, turn_id: uuid.UUID, *, run: int = 0) -> TurnLog:
        log = super().open(turn_id, run=run)
        self._copies[turn_id] = _Copy(_key(turn_id, run), log)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="event-log-writer")
        return log

    async def _write(self) -> None:
        """Copy what is new until no turn runs; while Redis is away, try again at growing intervals."""
        pause = flush = EVENT_LOG_FLUSH_SECONDS
        while self._copies:
            await asyncio.sleep(pause)
            try:
                await self._flush()
            except _TROUBLE as error:
                if pause == flush:
                    logger.warning(
                        "Redis does not take the event log (%s): readers of this process go on from memory, readers of "
                        "others get each answer once it is stored.",
                        error,
                    )
                pause = min(pause * 2, EVENT_LOG_RETRY_CEILING_SECONDS)
                for turn_id, copy in list(self._copies.items()):
                    # What Redis has is unknown: the next write replaces it.
                    copy.position = 0
                    # An ended turn is in the database; there is nothing to wait for.
                    if copy.log.is_complete:
                        del self._copies[turn_id]
            else:
                if pause != flush:
                    logger.warning("Redis takes the event log again.")
                pause = flush

    async def _flush(self) -> None:
        for turn_id, copy in list(self._copies.items()):
            # Its readers were sent elsewhere, and it may never get an end.
            if copy.log.is_lost:
                self._done_with(turn_id, copy)
        written = []
        async with self._connection().pipeline(transaction=False) as pipeline:
            for turn_id, copy in self._copies.items():
                if copy.position < len(copy.log.events):
                    copy.add_to(pipeline)
                    written.append((turn_id, copy, len(copy.log.events)))
            await pipeline.execute()
        for turn_id, copy, position in written:
            copy.position = position
            if copy.log.is_complete and position == len(copy.log.events):
                self._done_with(turn_id, copy)

    def _done_with(self, turn_id: uuid.UUID, copy: "_Copy") -> None:
        if self._copies.get(turn_id) is copy:
            del self._copies[turn_id]

    def elsewhere(self, turn_id: uuid.UUID, *, run: int) -> TurnLog:
        log = super().elsewhere(turn_id, run=run)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="event-log-reader")
        return log

    async def _read(self) -> None:
        """Fill the logs that somebody follows; while Redis is away, they wait for it or for the turn's rows."""
        pause = flush = EVENT_LOG_FLUSH_SECONDS
        while followed := self.followed():
            try:
                await self._fill(followed)
            except _TROUBLE as error:
                if pause == flush:
                    logger.warning("The event log cannot be read from Redis: %s", error)
                pause = min(pause * 2, EVENT_LOG_RETRY_CEILING_SECONDS)
            else:
                pause = flush
            # A log that nobody holds any more goes by itself.
            del followed
            await asyncio.sleep(pause)

    async def _fill(self, followed: Mapping[tuple[uuid.UUID, int], TurnLog]) -> None:
        by_key = {_key(*of).encode(): log for of, log in followed.items()}
        seen: dict[Any, Any] = {key: f"{log.run * EVENTS_PER_RUN + len(log.events)}-0" for key, log in by_key.items()}
        for key, entries in await self._connection().xread(seen) or ():
            _extend(by_key[key], entries)

    async def aclose(self) -> None:
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing], timeout=EVENT_LOG_TIMEOUT_SECONDS)
            self._writing.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _connection(self) -> Any:
        """The client, whose own types do not tell which of its answers this protocol gives."""
        if self._client is None:
            seconds = EVENT_LOG_TIMEOUT_SECONDS
            self._client = redis.asyncio.Redis.from_url(
                self._url,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=seconds,
                socket_connect_timeout=seconds,
                protocol=2,
            )
        return self._client


class _Copy:
    """How far the copy of one log has come."""

    def __init__(self, key: str, log: TurnLog) -> None:
        self.key = key
        self.log = log
        self.position = 0

    def add_to(self, pipeline: Any) -> None:
        """One entry with all that is new; the first replaces whatever is there."""
        if self.position == 0:
            pipeline.delete(self.key)
        events = self.log.events[self.position :]
        number = self.log.run * EVENTS_PER_RUN + self.position + len(events)
        pipeline.xadd(
            self.key, {_EVENTS: _packed(events)}, id=f"{number}-0", maxlen=EVENT_LOG_MAX_ENTRIES, approximate=True
        )
        # A log without an end is what is left of an answer whose process died.
        is_complete = self.log.is_complete
        seconds = TURN_LOG_RETENTION_SECONDS if is_complete else EVENT_LOG_TTL_SECONDS
        pipeline.pexpire(self.key, max(1, int(1000 * seconds)))


def _key(turn_id: uuid.UUID, run: int) -> str:
    return f"repondant:turn:{turn_id}:{run}"


def _extend(log: TurnLog, entries: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
    """Add what is new in these entries; a log in which something is missing is lost."""
    for entry_id, fields in entries:
        try:
            events = _unpacked(fields[_EVENTS])
        except (KeyError, TypeError, ValueError):
            # Written by another version of the product: its rows tell the turn.
            log.lose()
            return
        last = int(entry_id.partition(b"-")[0]) - log.run * EVENTS_PER_RUN
        known = len(log.events) - (last - len(events))
        if known < 0:
            log.lose()
            return
        for event in events[known:]:
            log.append(event)


def _packed(events: Iterable[Event]) -> str:
    packed = [
        event.text
        if isinstance(event, Delta)
        else [event.name, {name: getattr(event, name) for name in event.__slots__}]
        for event in events
    ]
    return json.dumps(packed, ensure_ascii=False, default=str)


def _unpacked(text: bytes) -> list[Event]:
    return [Delta(packed) if isinstance(packed, str) else _event(*packed) for packed in json.loads(text)]


def _event(name: str, fields: dict[str, Any]) -> Event:
    if name == Meta.name:
        for field in ("turn_id", "conversation_id"):
            fields[field] = uuid.UUID(fields[field])
        return Meta(**fields)
    kinds = {kind.name: kind for kind in (Restart, Sources, Tool, Done, Failure)}
    return kinds[name](**fields)
