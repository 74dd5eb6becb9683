"""How many questions a process looks up at once, and what becomes of the others.

What stands before an answer's first text (rights, search, the decision) is work of this process; what comes then is mostly
waiting for a model. So the former is bounded: a burst waits in line for its turn, and where the line does not empty new
questions are told soon (`OverloadedError`), instead of everybody waiting longer and longer. The two waits are those of
"Fail at Scale" (Maurer, ACM Queue 13:8, 2015), which took them from CoDel.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings

from chat.exceptions import OverloadedError
from chat.metrics import REFUSED


class Room:
    """One place, which is left once: by the door, or by the turn that was handed it."""

    def __init__(self, admission: "Admission") -> None:
        self._admission: Admission | None = admission
        self.is_handed_over = False

    def leave(self) -> None:
        if self._admission is not None:
            self._admission.free()
            self._admission = None


class Admission:
    """The places of a process and the line before them. Used on one event loop."""

    def __init__(self) -> None:
        self._taken = 0
        self._line: deque[asyncio.Future[None]] = deque()
        #: Since when somebody has stood in line without a break, by `time.monotonic`.
        self._line_since: float | None = None

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Room]:
        """A place until the end of the block, or of the preparation that it was handed to.

        Raises `OverloadedError` within `OVERLOAD_BURST_SECONDS`.
        """
        await self._enter()
        room = Room(self)
        try:
            yield room
        finally:
            if not room.is_handed_over:
                room.leave()

    @property
    def has_standing_line(self) -> bool:
        """Whether somebody has stood in line all the time for longer than a burst takes."""
        since = self._line_since
        return since is not None and time.monotonic() - since > settings.OVERLOAD_BURST_SECONDS

    def require_no_standing_line(self) -> None:
        """For what comes before a question; from any thread. Raises `OverloadedError`."""
        if self.has_standing_line:
            REFUSED.inc()
            raise OverloadedError

    async def _enter(self) -> None:
        if self._taken < settings.TURNS_PREPARED_AT_ONCE:
            self._taken += 1
            return
        if self._line_since is None:
            self._line_since = time.monotonic()
        is_short = self.has_standing_line
        most = settings.OVERLOAD_WAIT_SECONDS if is_short else settings.OVERLOAD_BURST_SECONDS
        place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(most):
                await place
        except TimeoutError:
            self._give_up(place)
            REFUSED.inc()
            raise OverloadedError from None
        except asyncio.CancelledError:
            self._give_up(place)
            raise

    def _give_up(self, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            self.free()  # It was given in the same moment.
            return
        if place in self._line:
            self._line.remove(place)
        if not self._line:
            self._line_since = None

    def free(self) -> None:
        """To the first in line, if there is one."""
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                break
        else:
            self._taken -= 1
        if not self._line:
            self._line_since = None


admission = Admission()
