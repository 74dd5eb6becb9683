"""Connections to MCP servers that stay open between calls: starting a local server takes seconds, a call milliseconds.

One thread with an event loop holds them, each in a task of its own (the SDK wants a connection closed by the task that
opened it). A connection that was idle is asked whether it lives before it is used; one that failed or hung is closed,
and the next call opens another. A call is never repeated: nobody knows whether the server ran it.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from tools_registry.exceptions import ToolError

C = TypeVar("C")
T = TypeVar("T")

#: Idle for longer, a connection is asked whether it lives; idle for much longer, it is closed.
_CHECK_AFTER_SECONDS = 5.0
_CLOSE_AFTER_SECONDS = 300.0
_PING_SECONDS = 2.0


class Sessions(Generic[C]):
    """Open clients by key; `run` may be called from any thread."""

    def __init__(self, *, ping: Callable[[C], Awaitable[object]]) -> None:
        self._ping = ping
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[Hashable, _Session[C]] = {}

    def run(
        self,
        key: Hashable,
        connect: Callable[[], AbstractAsyncContextManager[C]],
        work: Callable[[C], Awaitable[T]],
        *,
        seconds: float,
    ) -> T:
        """`work` with the client of `key`, within `seconds`, opening included; blocks."""
        return asyncio.run_coroutine_threadsafe(
            self._within(key, connect, work, seconds), self._running_loop()
        ).result()

    def close(self) -> None:
        """End every connection; the next call opens its own."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()

    async def _within(
        self,
        key: Hashable,
        connect: Callable[[], AbstractAsyncContextManager[C]],
        work: Callable[[C], Awaitable[T]],
        seconds: float,
    ) -> T:
        session: _Session[C] | None = None
        try:
            async with asyncio.timeout(seconds):
                session = await self._session(key, connect)
                return await session.use(work)
        except ToolError:
            raise  # the server answered; the connection is good
        except BaseException:
            if session is not None:
                self._forget(key, session)
            raise

    async def _session(self, key: Hashable, connect: Callable[[], AbstractAsyncContextManager[C]]) -> "_Session[C]":
        session = self._open.get(key)
        if session is not None and not await session.lives(self._ping):
            self._forget(key, session)
            session = None
        if session is None:
            session = self._open[key] = _Session(connect)
        try:
            await session.opened()
        except BaseException:
            self._forget(key, session)
            raise
        return session

    def _forget(self, key: Hashable, session: "_Session[C]") -> None:
        if self._open.get(key) is session:
            del self._open[key]
        session.retire()

    async def _close_all(self) -> None:
        sessions, self._open = list(self._open.values()), {}
        for session in sessions:
            session.stop()
        await asyncio.gather(*(session.ended() for session in sessions))

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(_CLOSE_AFTER_SECONDS / 5)
            for key, session in list(self._open.items()):
                if session.idle_seconds > _CLOSE_AFTER_SECONDS:
                    self._forget(key, session)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True, name="mcp").start()
                idle: Coroutine[Any, Any, None] = self._close_idle()
                asyncio.run_coroutine_threadsafe(idle, self._loop)
            return self._loop


class _Session(Generic[C]):
    """One connection and the task that holds it open."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        self._running = 0
        self._is_retired = False
        self._used_at = time.monotonic()
        self._stop = asyncio.Event()
        self._client: asyncio.Future[C] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(connect))

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._running else time.monotonic() - self._used_at

    async def opened(self) -> C:
        return await asyncio.shield(self._client)

    async def use(self, work: Callable[[C], Awaitable[T]]) -> T:
        client = await self.opened()
        self._running += 1
        try:
            return await work(client)
        finally:
            self._running -= 1
            self._used_at = time.monotonic()
            if self._is_retired and not self._running:
                self.stop()

    def retire(self) -> None:
        """Close once the calls that still run have ended; they are others'."""
        self._is_retired = True
        if not self._running:
            self.stop()

    async def lives(self, ping: Callable[[C], Awaitable[object]]) -> bool:
        if self._task.done():
            return False
        if self.idle_seconds < _CHECK_AFTER_SECONDS or not self._client.done():
            return True
        try:
            async with asyncio.timeout(_PING_SECONDS):
                await ping(self._client.result())
        except Exception:  # noqa: BLE001  # whatever it is, the connection is of no use
            return False
        return True

    def stop(self) -> None:
        self._stop.set()
        if not self._client.done():
            self._task.cancel()

    async def ended(self) -> None:
        await asyncio.wait([self._task])

    async def _hold(self, connect: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        try:
            async with connect() as client:
                self._client.set_result(client)
                await self._stop.wait()
        except BaseException as error:
            if not self._client.done():
                self._client.set_exception(error)
                self._client.exception()  # looked at, so that nobody waiting is no warning
            elif isinstance(error, asyncio.CancelledError):
                raise
