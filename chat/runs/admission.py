"""How many questions a process looks up at once, and what becomes of the others.

What stands before an answer's first text (rights, search, the decision) is work of this process; what comes then is
mostly waiting for a model. So the former is bounded: a burst waits in line for its turn, and where the line does not
empty new questions are told soon (`OverloadedError`), instead of everybody waiting longer and longer. The two waits are
those of "Fail at Scale" (Maurer, ACM Queue 13:8, 2015), which took them from CoDel.

Who opens a conversation takes a place for it and stands in a line of their own, behind those who have one: otherwise a
process that is asked far too much would spend itself on sessions and sockets of people whose question it then refuses.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.exceptions import OverloadedError
from chat.metrics import REFUSED

#: Questions of one process between their arrival and their first text, or their call of the model: each some 30 ms of
#: processor time, so that four at once make one wait an eighth of a second (`benchmarks/load`); more wait in line.
TURNS_PREPARED_AT_ONCE = 4
#: …and where the line has not been empty for as long, everybody this long.
OVERLOAD_WAIT_SECONDS = 0.2


class Room:
    """One place, which is left once: by the door, or by the turn that was handed it."""

    def __init__(self, admission: "Admission") -> None:
        self._admission: Admission | None = admission
        self.is_handed_over = False

    def leave(self) -> None:
        if self._admission is not None:
            self._admission.free()
            self._admission = None


class _Line:
    """Those who wait, first come, first served; `burst_setting` says for how long it may stand before it is one of too
    many.
    """

    def __init__(self, burst_setting: str) -> None:
        self._burst_setting = burst_setting
        self._places: deque[asyncio.Future[None]] = deque()
        #: Since when somebody has stood here without a break, by `time.monotonic`.
        self._since: float | None = None

    @property
    def stands(self) -> bool:
        """Whether somebody has stood here all the time for longer than a burst takes."""
        return self._since is not None and time.monotonic() - self._since > self._burst_seconds

    @property
    def _burst_seconds(self) -> float:
        seconds: float = getattr(settings, self._burst_setting)
        return seconds

    def join(self) -> asyncio.Future[None]:
        if self._since is None:
            self._since = time.monotonic()
        place = asyncio.get_running_loop().create_future()
        self._places.append(place)
        return place

    def leave(self, place: asyncio.Future[None]) -> None:
        if place in self._places:
            self._places.remove(place)
        self._note_emptied()

    def call_first(self) -> bool:
        """Hand a place to the first; false where nobody waits."""
        called = False
        while self._places and not called:
            place = self._places.popleft()
            if not place.done():
                place.set_result(None)
                called = True
        self._note_emptied()
        return called

    def _note_emptied(self) -> None:
        if not self._places:
            self._since = None


class Admission:
    """The places of a process and the lines before them. Used on one event loop."""

    def __init__(self) -> None:
        self._taken = 0
        self._asking = _Line("OVERLOAD_BURST_SECONDS")
        self._opening = _Line("OVERLOAD_OPENING_SECONDS")
        self._is_ending = False

    @asynccontextmanager
    async def room(self, *, opens: bool = False, asks: bool = True) -> AsyncIterator[Room]:
        """A place until the end of the block, or of the preparation that it was handed to.

        `opens`: for a new conversation, behind those who have one; where its question comes with it, it also `asks`.
        Raises `OverloadedError` within `OVERLOAD_BURST_SECONDS`, or `OVERLOAD_OPENING_SECONDS` for what does not ask.
        """
        line = self._opening if opens else self._asking
        await self._enter(line, self._seconds(line, asks=asks))
        room = Room(self)
        try:
            yield room
        finally:
            if not room.is_handed_over:
                room.leave()

    def require_no_standing_line(self) -> None:
        """For what can wait until less is asked; from any thread. Raises `OverloadedError`."""
        if self._asking.stands or self._opening.stands:
            raise OverloadedError

    def announce_end(self) -> None:
        """The process takes no more connections: what was sent to it is worked off, however long the line is."""
        self._is_ending = True

    def _seconds(self, line: _Line, *, asks: bool) -> float:
        """How long whoever joins the line now waits at most."""
        if self._is_ending:
            most = settings.TURN_DRAIN_SECONDS
        elif line.stands:
            most = OVERLOAD_WAIT_SECONDS
        else:
            most = settings.OVERLOAD_BURST_SECONDS if asks else settings.OVERLOAD_OPENING_SECONDS
        seconds: float = most
        return seconds

    async def _enter(self, line: _Line, most: float) -> None:
        if self._taken < TURNS_PREPARED_AT_ONCE:
            self._taken += 1
            return
        place = line.join()
        try:
            async with asyncio.timeout(most):
                await place
        except TimeoutError:
            self._give_up(line, place)
            REFUSED.inc()
            raise OverloadedError from None
        except asyncio.CancelledError:
            self._give_up(line, place)
            raise

    def _give_up(self, line: _Line, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            self.free()  # It was given in the same moment.
            return
        line.leave(place)

    def free(self) -> None:
        """To the first in line, if there is one."""
        if not self._asking.call_first() and not self._opening.call_first():
            self._taken -= 1


admission = Admission()
