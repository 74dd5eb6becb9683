"""The streaming half of the OpenAI-compatible backend: one POST, its body as raw bytes.

aiohttp instead of httpx2, which everything else uses, because a hundred people ask at once: with httpx2 opening their
requests takes several times as long (`benchmarks/streaming`, ADR 10). One pool of connections for each event loop;
bounded waits; retries before the first byte.
"""

import asyncio
import json
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agents.errors import LLMCutError, LLMError, LLMResponseError, LLMTimeoutError, LLMUnavailableError
from agents.llm.server import REFUSAL_BYTES, ServerOptions, raise_for_status
from agents.processes.requests import outgoing_headers

if TYPE_CHECKING:
    import aiohttp

#: An idle connection is kept as long as a reader thinks.
_KEEP_ALIVE_SECONDS = 30.0
_STREAM_HEADERS = {
    "Accept": "text/event-stream, application/json",
    # A compressed stream would be held back until a block is full.
    "Accept-Encoding": "identity",
}


class ResponseBody:
    """The body of an open response, read as it comes."""

    def __init__(self, response: "aiohttp.ClientResponse", pause: float) -> None:
        self._response = response
        self._content = response.content
        self._pause = pause

    async def read(self, *, gather: bool = False) -> bytes:
        """The bytes that are there, waiting for the first of them; nothing at the end of the body.

        `gather` lets them come together on the connection first. What a token costs is mostly waking up for it: tokens
        that are read together are decoded, sent and drawn together (`benchmarks/load`).
        """
        if gather and self._pause:
            await self._let_gather(self._pause)
        with _translated_errors(during_body=True):
            return await self._content.readany()

    async def _let_gather(self, seconds: float) -> None:
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        if transport is None:
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            transport.resume_reading()

    @property
    def is_at_end(self) -> bool:
        return self._content.at_eof()


class StreamTransport:
    """POSTs to one server."""

    def __init__(self, server: ServerOptions) -> None:
        self._server = server
        self._ssl_context: ssl.SSLContext | None = None
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            weakref.WeakKeyDictionary()
        )

    def open_session(self) -> "aiohttp.ClientSession":
        """The running event loop's session; made at first use."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = self._new_session()
        return session

    def _new_session(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._ssl_context is None:
            # Loading the certificates takes tens of milliseconds: once, not for each event loop.
            self._ssl_context = ssl.create_default_context()
        server = self._server
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=server.max_connections, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=self._ssl_context
            ),
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=server.read_timeout,
                sock_connect=server.connect_timeout,
                sock_read=server.read_timeout,
            ),
            headers={**server.headers, **_STREAM_HEADERS},
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy_for(server.url("")),
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def post(self, path: str, request: Mapping[str, Any]) -> AsyncIterator[ResponseBody]:
        """Send `request` as JSON and hand out the body of a success.

        Tried again after a passing trouble as long as nothing was answered. Leaving before the end of the body closes
        the connection, so that the server stops.
        """
        session = self.open_session()
        body = json.dumps(request, ensure_ascii=False).encode()
        for attempt in count():
            try:
                response = await _send(session, self._server.url(path), body)
                break
            except LLMError as error:
                if (pause := self._server.pause_after(error, attempt)) is None:
                    raise
            await asyncio.sleep(pause)
        async with response:
            yield ResponseBody(response, self._server.read_pause)


async def _send(session: "aiohttp.ClientSession", url: str, body: bytes) -> "aiohttp.ClientResponse":
    """One try: the response of a success, with its body unread."""
    with _translated_errors():
        response = await session.post(url, data=body, headers=outgoing_headers())
        if response.status >= 300:
            async with response:
                said = await response.content.read(REFUSAL_BYTES)
                raise_for_status(response.status, said, response.headers)
        return response


def _proxy_for(base_url: str) -> str | None:
    """The proxy that the environment sets for this server; looked up once, not for each request."""
    address = urlsplit(base_url)
    if not address.hostname or proxy_bypass(address.hostname):
        return None
    proxies = getproxies()
    return proxies.get(address.scheme) or proxies.get("all")


@contextmanager
def _translated_errors(*, during_body: bool = False) -> Iterator[None]:
    """Raise this project's errors instead of aiohttp's, chained, without what the server said."""
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise LLMTimeoutError("The server did not answer in time.") from error
    except (aiohttp.ClientConnectionError, OSError) as error:
        if during_body:
            raise LLMCutError(f"The response was cut ({type(error).__name__}).") from error
        raise LLMUnavailableError("The server cannot be reached.") from error
    except (aiohttp.ClientError, ValueError) as error:
        if during_body:
            raise LLMCutError(f"The response was cut ({type(error).__name__}).") from error
        raise LLMResponseError(f"The response failed ({type(error).__name__}).") from error
