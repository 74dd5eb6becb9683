"""The HTTP connections of `serve`: how many a web process holds, and what the head of a request may be and take to
come.

uvicorn closes a connection that is silent after an answer, and no other; it keeps headers and requests sent ahead
without end. What comes after the headers is bounded where any ASGI server is held to it (`chat.doors.bounds`).
"""

import asyncio
import logging
import resource
from collections import Counter
from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from chat.access.rate_limits import address_in

#: The headers of a request must come within so long, whether it is the first of its connection or a later one.
REQUEST_HEADERS_SECONDS = 10.0
#: Request line and headers together, and how many headers: what nginx (4 × 8 kB) and Apache (100) take by default.
#: Trailers of a body count among them.
REQUEST_HEAD_BYTES = 32 * 1024
REQUEST_HEADERS = 100
#: Requests that a connection may send before the first of them is answered; no browser and no proxy sends any.
REQUESTS_AHEAD = 32
#: Of the connections of a web process, how many may be sockets of readers: the others are kept for requests and probes.
SOCKETS_SHARE = 0.75

logger = logging.getLogger(__name__)

_END = b"content-length: 0\r\nconnection: close\r\n\r\n"
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\n" + _END
_TOO_MANY_SOCKETS = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 10\r\n" + _END
_NO_HANDSHAKE = b"HTTP/1.1 400 Bad Request\r\n" + _END
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n" + _END
#: Bytes that the parser is given at a time: so exactly is a head measured that begins amid what came together.
_PIECE_BYTES = 4096


class _RefusedError(Exception):
    """Stops the parser."""


def most_connections() -> int:
    """`WEB_CONNECTIONS`, and never more than half of the files that this process may open: answers need the others."""
    files, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted: int = settings.WEB_CONNECTIONS
    return wanted if files == resource.RLIM_INFINITY else min(wanted, files // 2)


def most_sockets() -> int:
    return int(most_connections() * SOCKETS_SHARE)


class CountedSocket(WebSocketsSansIOProtocol):
    """A socket that counts for the address of its reader until its connection is gone, not only until it is closed."""

    #: Of this process.
    by_address: ClassVar[Counter[str]] = Counter()

    def __init__(self, address: str, **parts: Any) -> None:
        super().__init__(**parts)
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.by_address[self._address] += 1
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            # Nothing may be sent before the handshake has its answer; uvicorn would fail at it.
            self.transport.close()
            return
        super().data_received(data)
        # uvicorn would wait on, for ever: a line is too long, or it has a body.
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(_NO_HANDSHAKE)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.by_address[self._address] -= 1
        if not self.by_address[self._address]:
            del self.by_address[self._address]
        super().connection_lost(exc)


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed where no whole headers of a request come in time, or more of them than a request has."""

    _late: asyncio.TimerHandle | None = None
    #: What came since a request began, or since a piece of its body: request line, headers, trailers, what frames
    #: chunks.
    _head_bytes = 0
    _is_refused = False
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
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed(data[start : start + _PIECE_BYTES])
        # After an answer, whatever comes is the beginning of the next request, or is to lead to one in time.
        is_between = self.cycle is None or self.cycle.response_complete
        if is_between and not self._is_socket and not self.transport.is_closing():
            self._expect_headers()

    def _feed(self, piece: bytes) -> None:
        if self._is_refused or self._is_socket or self.transport.is_closing():
            return
        self._head_bytes += len(piece)
        if self._head_bytes > REQUEST_HEAD_BYTES:
            self._refuse("its headers are too long")
        else:
            super().data_received(piece)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        if len(self.pipeline) >= REQUESTS_AHEAD:
            self._refuse("too many were sent ahead")
            raise _RefusedError
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also of the trailers of a body in chunks."""
        if len(self.headers) >= REQUEST_HEADERS:
            self._refuse("too many headers")
            raise _RefusedError
        super().on_header(name, value)

    def send_400_response(self, msg: str) -> None:
        if not self._is_refused:
            super().send_400_response(msg)

    def _refuse(self, reason: str) -> None:
        """Answer 431 and close. Requests that came whole before have their own answers; the connection ends with these."""
        self._is_refused = True
        logger.warning("a request was refused: %s", reason)
        if self.is_answering and not self.cycle.more_body:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        if not (self.is_answering and self.cycle.response_started):
            self.transport.write(_TOO_LARGE)
        self.transport.close()

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
        address = address_in(self.scope)
        if 0 < settings.WEB_SOCKETS_PER_ADDRESS <= CountedSocket.by_address[address]:
            self._refuse_socket(_TOO_MANY_SOCKETS, f"{address} has as many as an address may have")
        elif CountedSocket.by_address.total() >= most_sockets():
            self._refuse_socket(_FULL, "as many are open as this process holds")
        else:
            self._is_socket = True
            self.ws_protocol_class = partial(CountedSocket, address)  # type: ignore[assignment]  # all that uvicorn does is call it
            super().handle_websocket_upgrade()

    def _refuse_socket(self, answer: bytes, reason: str) -> None:
        logger.warning("a socket was refused: %s", reason)
        self.transport.write(answer)
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_HEADERS_SECONDS, self._close_late)

    def _forget_headers(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()
