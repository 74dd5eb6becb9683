"""The events of running turns: kept by the process that runs them, and followed from there or from elsewhere.

Other processes see nothing of them, or where there is Redis its streams (`chat.runs.redis_log`): the backend of
`EVENT_LOGS`. Event ids count from 1 within a run, and from the next multiple of `EVENTS_PER_RUN` in another run.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from agents.cache import BackendHandler
from chat.protocol import FINAL_EVENTS, Beat, Delta, Event

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


def event_logs() -> EventLogs:
    return _backends["default"]
