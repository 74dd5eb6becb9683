"""The events of running turns: kept by the process that runs them, and followed from there or from elsewhere.

What other processes see is the business of the backend (`EVENT_LOGS`): nothing in `memory`, a Redis stream in `redis`.
Event ids count from 1 within a run of a turn, and from the next multiple of `EVENTS_PER_RUN` in another run.
"""

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.backends import BackendHandler
from chat.protocol import FINAL_EVENTS, Beat, Delta, Event, Restart, Sources

#: Within this time a process sees that an answer of its own is to be stopped, when that was asked of another one.
TURN_STOP_SECONDS = 1.0
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


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """The text and the sources that a turn had emitted before its process died."""

    text: str
    sources: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, events: Sequence[Event]) -> "PartialAnswer":
        text, sources = "", []
        for event in events:
            match event:
                case Sources():
                    sources = list(event.sources)
                case Delta():
                    text += event.text
                case Restart():
                    text = ""
        return cls(text, sources)


class EventLogs(ABC):
    """The logs of the turns that this process runs, and what it sees of others'. For the event loop."""

    def __init__(self) -> None:
        self._held: dict[uuid.UUID, TurnLog] = {}
        self._rings = self._heard = 0
        self._bell = asyncio.Event()

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

    @abstractmethod
    def elsewhere(self, turn_id: uuid.UUID, *, run: int) -> TurnLog:
        """A log that fills with another process's events while somebody holds it, and is lost where some are missing."""

    @abstractmethod
    async def ended(self, turn_id: uuid.UUID, *, run: int) -> TurnLog | None:
        """The whole log of a run that has ended in another process, `None` where it is not kept any more."""

    @abstractmethod
    def partial_answer(self, turn_id: uuid.UUID, *, run: int) -> PartialAnswer | None:
        """What is left of a run whose process died. Synchronous, and bounded in time."""

    async def ring(self) -> None:
        """Tell the other processes to check at once whether one of their turns must stop."""
        self._strike()

    def _strike(self) -> None:
        self._rings += 1
        self._bell.set()

    async def rung(self, seconds: float) -> None:
        """Wait for a `ring`, at most `seconds`; one since the last wait counts. For one waiter."""
        if self._heard == self._rings:
            self._bell = asyncio.Event()
            try:
                await asyncio.wait_for(self._bell.wait(), seconds)
            except TimeoutError:
                return
        self._heard = self._rings

    async def aclose(self) -> None:
        """Write what is waiting, within a bound, and let go of connections."""
        return None


_backends = BackendHandler("EVENT_LOGS", EventLogs)


def event_logs() -> EventLogs:
    return _backends["default"]


class MemoryEventLogs(EventLogs):
    def elsewhere(self, turn_id: uuid.UUID, *, run: int) -> TurnLog:
        return TurnLog(run)

    async def ended(self, turn_id: uuid.UUID, *, run: int) -> TurnLog | None:
        return None

    def partial_answer(self, turn_id: uuid.UUID, *, run: int) -> PartialAnswer | None:
        return None
