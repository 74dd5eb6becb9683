"""The HTTP connections of `serve`: how many a web process holds, and how long the headers of a request may take to come.

uvicorn closes a connection that is silent after an answer, and no other. What comes after the headers is bounded where any ASGI
server is held to it (`chat.doors.bounds`).
"""

import asyncio
import logging
import resource
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logger = logging.getLogger(__name__)

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"content-length: 0\r\nretry-after: 2\r\nconnection: close\r\n\r\n"
)


def most_connections() -> int:
    """`WEB_CONNECTIONS`, and never more than half of the files that this process may open: answers need the others."""
    files, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted: int = settings.WEB_CONNECTIONS
    return wanted if files == resource.RLIM_INFINITY else min(wanted, files // 2)


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed where no whole headers of a request come in time."""

    _late: asyncio.TimerHandle | None = None
    _is_socket = False
    _is_last = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            logger.warning("a connection was refused: %d are open", len(self.connections) - 1)
            transport.write(_FULL)
            transport.close()
            return
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # After an answer, whatever comes is the beginning of the next request, or is to lead to one in time.
        is_between = self.cycle is None or self.cycle.response_complete
        if is_between and not self._is_socket and not self.transport.is_closing():
            self._expect_headers()

    def on_headers_complete(self) -> None:
        self._forget_headers()
        super().on_headers_complete()
        # The request that becomes a socket has no cycle.
        if self._is_last and self.cycle is not None:
            self.cycle.keep_alive = False

    @property
    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def end_after_this(self) -> None:
        """Close with the answer that is under way, or else with the next."""
        self._is_last = True
        if self.is_answering:
            self.cycle.keep_alive = False

    def close_if_idle(self) -> None:
        """Close a connection on which no request is under way."""
        if not self.is_answering and not self._is_socket:
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._is_socket = True
        super().handle_websocket_upgrade()

    def _expect_headers(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(settings.REQUEST_HEADERS_SECONDS, self._close_late)

    def _forget_headers(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()
