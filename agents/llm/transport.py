"""The streaming half of the OpenAI-compatible backend: one POST, its body as raw bytes.

aiohttp instead of the vendor's asynchronous client, because a hundred people ask at once: opening a request costs a
quarter and a token half of what it does there (`benchmarks/streaming`). What the vendor's client did besides is here:
authentication, bounded waits, retries before the first byte, one pool for each event loop. Errors are `LLMError`s;
what a server answers may hold the prompt or the key, so they keep its status and codes only.
"""

import asyncio
import json
import random
import re
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agents.exceptions import (
    LLMCutError,
    LLMError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
    LLMUnavailableError,
)

if TYPE_CHECKING:
    import aiohttp

#: An idle connection is kept as long as a reader thinks.
_KEEP_ALIVE_SECONDS = 30.0
#: A pause between two reads that is shorter gathers nothing, and a longer one would be seen.
_SHORTEST_READ_PAUSE_SECONDS = 0.006
_LONGEST_READ_PAUSE_SECONDS = 0.06
#: Pauses before another try, doubled each time (the vendor's client waits as long).
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0
#: A server that asks for more patience than this is taken for unavailable.
_LONGEST_RETRY_AFTER_SECONDS = 60.0
#: How much of a refusal is read, to find which argument the server refused.
_REFUSAL_BYTES = 16 * 1024


class StatusError(Exception):
    """An HTTP status that is not a success: `said` is for finding a refused argument, never for a log."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.said = said
        self.request_id = headers.get("x-request-id", "")
        self.retry_after = retry_after(headers)


class ResponseBody:
    """The body of an open response, read as it comes."""

    def __init__(self, response: "aiohttp.ClientResponse", pause: Callable[[], float]) -> None:
        self._response = response
        self._content = response.content
        self._pause = pause
        self._has_read = False

    async def read(self) -> bytes:
        """The bytes that are there, waiting for the first of them; nothing at the end of the body.

        After the first bytes, a busy process lets some gather on the connection before it reads again.
        """
        if self._has_read and (seconds := self._pause()):
            await self._let_gather(seconds)
        self._has_read = True
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
    """POSTs to one server. `read_timeout` bounds the wait for the first byte and between two reads, in seconds.

    `pause_per_stream` seconds for each stream that runs pass between two reads of one stream (`ResponseBody.read`).
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        connect_timeout: float,
        read_timeout: float,
        max_retries: int,
        max_connections: int,
        pause_per_stream: float,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            # A compressed stream would be held back until a block is full.
            "Accept-Encoding": "identity",
            "User-Agent": "repondant",
        }
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._max_retries = max_retries
        self._max_connections = max_connections
        self._pause_per_stream = pause_per_stream
        self._streams = 0
        self._ssl_context: ssl.SSLContext | None = None
        self._sessions: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, aiohttp.ClientSession
        ] = weakref.WeakKeyDictionary()

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
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._max_connections,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ssl=self._ssl_context,
            ),
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=self._read_timeout,
                sock_connect=self._connect_timeout,
                sock_read=self._read_timeout,
            ),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_proxy_for(self._base_url),
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
        for attempt in range(self._max_retries + 1):
            try:
                response = await _send(session, f"{self._base_url}/{path}", body)
                break
            except LLMError as error:
                pause = _pause_before_retry(error, attempt)
                if pause is None or attempt == self._max_retries:
                    raise
            await asyncio.sleep(pause)
        self._streams += 1
        try:
            async with response:
                yield ResponseBody(response, self._pause)
        finally:
            self._streams -= 1

    def _pause(self) -> float:
        """Seconds between two reads of one stream: none for a few streams, then growing with their number.

        What a token costs is mostly waking up for it. Tokens that arrive together are read, sent and drawn together.
        """
        seconds = min(self._streams * self._pause_per_stream, _LONGEST_READ_PAUSE_SECONDS)
        return seconds if seconds >= _SHORTEST_READ_PAUSE_SECONDS else 0.0


async def _send(
    session: "aiohttp.ClientSession", url: str, body: bytes
) -> "aiohttp.ClientResponse":
    """One try: the response of a success, with its body unread."""
    with _translated_errors():
        response = await session.post(url, data=body)
        if response.status < 300:
            return response
        async with response:
            said = (await response.content.read(_REFUSAL_BYTES)).decode(errors="replace")
            cause = StatusError(response.status, said, response.headers)
            error = error_for_status(response.status, _detail(cause))
            error.retry_after = cause.retry_after
            raise error from cause


def _pause_before_retry(error: LLMError, attempt: int) -> float | None:
    """Seconds to wait before another try, `None` where another one would not help."""
    if not error.retryable:
        return None
    cause = error.__cause__
    if isinstance(cause, StatusError) and cause.retry_after is not None:
        return cause.retry_after if cause.retry_after <= _LONGEST_RETRY_AFTER_SECONDS else None
    pause = min(_FIRST_PAUSE_SECONDS * (1 << attempt), _LONGEST_PAUSE_SECONDS)
    return pause * random.uniform(0.75, 1.0)  # noqa: S311  # spreads retries, protects nothing


def retry_after(headers: Mapping[str, str]) -> float | None:
    """What the server asks for, in seconds. A date (no server of this protocol sends one) counts as nothing."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    return None


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


# Errors that both halves share.


def error_for_status(status: int, detail: str) -> LLMError:
    if status in {408, 504}:
        return LLMTimeoutError(detail)
    if status == 429:
        return LLMRateLimitedError(detail)
    if status in {409, 425} or status >= 500:
        return LLMUnavailableError(detail)
    return LLMResponseError(detail)


def short_code(value: object) -> str:
    """A machine-readable code as it is; anything that could be a sentence is left out."""
    return code if re.fullmatch(r"[\w.\-]{1,60}", code := str(value)) else "unreadable"


def _detail(error: StatusError) -> str:
    try:
        code = json.loads(error.said)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        code = None
    request_id = f", request {short_code(error.request_id)}" if error.request_id else ""
    return f"The server answered {error.status} (code {short_code(code)}{request_id})."
