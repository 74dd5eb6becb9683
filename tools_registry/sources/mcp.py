"""Tools of MCP servers, through the official SDK: over stdio, and over streamable HTTP. The only file that imports it.

One thread with an event loop holds the connections, which stay open between calls, each in a task of its own (the SDK
wants a connection closed by the task that opened it). A call is never repeated: nobody knows whether the server ran it. Local servers are those of the setting
`MCP_STDIO_SERVERS`, with a bare environment; remote ones obey `sources.base`. Every wait is bounded by the source's
own delay.
"""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpx2
from django.conf import settings

from agents.network import guarded_async_client, host_of
from agents.texts import storable, storable_value
from tools_registry.errors import (
    ToolError,
    ToolFailedError,
    ToolReportedError,
    ToolServerError,
    ToolSourceError,
    ToolTimeoutError,
)
from tools_registry.models import SourceKind
from tools_registry.sources.base import (
    TOOL_MAX_RESPONSE_BYTES,
    DeclaredTool,
    ReadTools,
    SourceAddress,
    reach_of,
    resolved_headers,
)
from tools_registry.tool import Arguments, ToolImage

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ContentBlock
    from mcp_types import Tool as McpTool
    from pydantic import ValidationError

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


#: Pages of a server's list that are read; a list without end is no list.
_PAGES = 20


def list_tools(address: SourceAddress) -> ReadTools:
    """What the server declares now, each tool read on its own: a bad one loses no other. Raises `ToolError`."""

    async def listing(client: "Client") -> ReadTools:
        read = ReadTools()
        for tool, problem in await _listed(client):
            if isinstance(tool, str):
                read.refused.append((tool, problem))
            elif tool.execution is not None and tool.execution.task_support == "required":
                read.refused.append((tool.name, "it runs as a task only, which is not supported"))
            else:
                read.tools.append(
                    DeclaredTool(
                        name=tool.name,
                        description=tool.description or tool.title or "",
                        parameters=tool.input_schema,
                        needs_approval=_may_change_something(tool),
                    )
                )
        return read

    return _run(address, listing)


def _may_change_something(tool: "McpTool") -> bool:
    """Unless it says that it only reads: a tool that says nothing may destroy, by the protocol."""
    hints = tool.annotations
    return hints is None or hints.read_only_hint is not True or hints.destructive_hint is True


async def _listed(client: "Client") -> "list[tuple[McpTool | str, str]]":
    """The tools of the server, and for those that cannot be read their names with the reason."""
    from mcp_types import ListToolsResult, Tool
    from pydantic import ValidationError

    session = client.session
    found: list[tuple[Tool | str, str]] = []
    cursor: str | None = None
    for _number in range(_PAGES):
        raw = await _page(client, cursor)
        rows = storable_value(raw.get("tools"))
        if not isinstance(rows, list):
            raise ToolSourceError("The server's answer holds no list of tools.")
        good: list[Tool] = []
        for row in rows:
            try:
                good.append(Tool.model_validate(row, by_name=False))
            except ValidationError as error:
                name = row.get("name") if isinstance(row, dict) else None
                found.append((str(name or "?")[:200], _in_words(error)))
        # What the SDK keeps of a list: schemas of results, headers that arguments are repeated in.
        kept = session._absorb_tool_listing(ListToolsResult(tools=list(good)), complete=False).tools
        found.extend((tool, "") for tool in kept)
        names = {tool.name for tool in kept}
        found.extend((tool.name, "its headers are not valid") for tool in good if tool.name not in names)
        cursor = raw.get("nextCursor")
        if not cursor:
            return found
    raise ToolSourceError(f"The list of tools has more than {_PAGES} pages.")


async def _page(client: "Client", cursor: str | None = None) -> dict[str, Any]:
    """A page of the server's list, unread: the SDK's own verb reads it whole, so that one bad tool loses them all."""
    session = client.session
    request: dict[str, Any] = {"params": {} if cursor is None else {"cursor": cursor}}
    options: Any = {}
    session._stamp({"method": "tools/list", **request}, options)
    return await session._dispatcher.send_raw_request("tools/list", request["params"], options)


def _in_words(error: "ValidationError") -> str:
    """What is wrong with a tool as its server describes it, in a line for staff."""
    told = [f"{'.'.join(map(str, found['loc'])) or 'it'}: {found['msg']}" for found in error.errors()]
    return "; ".join(told[:3])[:300]


def call_tool(
    address: SourceAddress,
    name: str,
    arguments: Arguments,
    on_progress: Callable[[float, float | None, str], None] | None = None,
) -> object:
    """The tool's result. Raises `ToolReportedError` with the server's words where it says that the call was wrong,
    `ToolServerError` where it failed itself."""

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        if on_progress is not None:
            on_progress(progress, total, storable(message or ""))

    async def calling(client: "Client") -> object:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT
        from pydantic import ValidationError

        session = client.session
        if name not in session._tool_output_schemas:
            await _listed(client)
            # Not listed any more: the server says so itself, better than a list that it may not give.
            session._tool_output_schemas.setdefault(name, None)
        try:
            result = await client.call_tool(
                name, dict(arguments), progress_callback=None if on_progress is None else progressed
            )
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise
            kind = ToolServerError if error.code == INTERNAL_ERROR else ToolReportedError
            raise kind(f"{error.message} ({error.code})") from error
        except ValidationError as error:
            raise ToolServerError(
                f"The server's answer is not what the protocol describes: {_in_words(error)}"
            ) from error
        except RuntimeError as error:  # its own words for a result that breaks the tool's schema
            reason = getattr(error.__cause__, "message", "") or str(error)
            raise ToolServerError(f"The result does not fit the tool's own schema: {reason}") from error
        blocks = [_shown(block) for block in result.content]
        if result.is_error:
            texts = [block if isinstance(block, str) else str(block) for block in blocks]
            raise ToolReportedError("\n".join(texts) or f"{name} failed.")
        if result.structured_content is not None:
            # Its text is the same again, and the rest is not.
            more = [shown for shown, block in zip(blocks, result.content, strict=True) if block.type != "text"]
            structured = result.structured_content
            return {"result": structured, "content": more} if more else structured
        return blocks[0] if len(blocks) == 1 else blocks

    return _run(address, calling)


def _shown(block: "ContentBlock") -> object:
    """A piece of a result as a model reads it: texts and links whole, images if it sees, other binaries by name."""
    match block.type:
        case "text":
            return block.text
        case "resource":
            resource = block.resource
            held = {"uri": str(resource.uri), "type": resource.mime_type}
            text = getattr(resource, "text", None)
            if text is not None:
                return {**held, "text": text}
            blob, kind = getattr(resource, "blob", ""), resource.mime_type or ""
            is_image = kind.startswith("image/")
            return {**held, "text": ToolImage(kind, blob) if is_image else _named(kind, blob)}
        case "resource_link":
            told = {
                "uri": str(block.uri),
                "name": block.title or block.name,
                "description": block.description,
                "type": block.mime_type,
            }
            return {"link": {key: value for key, value in told.items() if value}}
        case "image":
            return ToolImage(block.mime_type, block.data)
        case "audio":
            return _named(block.mime_type, block.data)


def _named(kind: str, encoded: str) -> str:
    return f"({kind or 'unknown kind'}, {len(encoded) * 3 // 4} bytes: not a text, not shown)"


async def _ping(client: "Client") -> object:
    # The newest version of the protocol has no ping; every server can list, and a page of a long list is enough.
    return await _page(client)


_sessions: "Sessions[Client]" = Sessions(ping=_ping)
#: Ends every connection; for tests.
close_sessions = _sessions.close


def _run(address: SourceAddress, work: "Callable[[Client], Awaitable[T]]") -> T:
    local = address.kind == SourceKind.MCP_STDIO
    where = tuple(_command_line(address.command)) if local else (address.url,)
    # Another source, address, secret or delay is another connection.
    key = (address.source, where, tuple(sorted(_headers(address).items())), address.timeout_seconds)
    try:
        return _sessions.run(key, partial(_connected, address), work, seconds=address.timeout_seconds)
    except TimeoutError as error:
        raise ToolTimeoutError(f"No answer within {address.timeout_seconds} s.") from error
    except Exception as error:  # the SDK raises groups of anything; ours are taken out of them
        ours = _first_of_ours(error)
        if ours is not None:
            raise ours from error
        raise ToolFailedError(f"{type(error).__name__}: {error}") from error


def _first_of_ours(error: BaseException) -> ToolError | None:
    if isinstance(error, ToolError):
        return error
    if isinstance(error, TimeoutError):
        return ToolTimeoutError("The server did not answer in time.")
    if isinstance(error, OSError) and error.filename:
        return ToolSourceError(f"The command {error.filename!r} cannot be started: {error.strerror}.")
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    if isinstance(code, int) and isinstance(message, str):  # an error of the protocol
        return ToolServerError(f"{message} ({code})")
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((found for one in inner if (found := _first_of_ours(one)) is not None), None)


@asynccontextmanager
async def _connected(address: SourceAddress) -> "AsyncIterator[Client]":
    # Importing the SDK takes a second, which the commands of an installation without MCP need not pay.
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async with AsyncExitStack() as stack:
        if address.kind == SourceKind.MCP_STDIO:
            command, *arguments = _command_line(address.command)
            parameters = StdioServerParameters(command=command, args=arguments, env=_headers(address))
            transport = stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
        else:
            http: httpx2.AsyncClient = await stack.enter_async_context(
                guarded_async_client(
                    reach_of([host_of(address.url, ToolSourceError)]),
                    timeout=address.timeout_seconds,
                    headers=_headers(address),
                )
            )
            transport = streamable_http_client(
                address.url, http_client=http, max_sse_event_size=TOOL_MAX_RESPONSE_BYTES
            )
        client = Client(transport, read_timeout_seconds=address.timeout_seconds, cache=None)
        yield await stack.enter_async_context(client)


def _headers(address: SourceAddress) -> dict[str, str]:
    is_local = address.kind == SourceKind.MCP_STDIO
    return resolved_headers(address.headers, [address.command if is_local else host_of(address.url, ToolSourceError)])


def _command_line(name: str) -> list[str]:
    servers: Mapping[str, Any] = settings.MCP_STDIO_SERVERS
    line = servers.get(name)
    if not isinstance(line, list) or not line or not all(isinstance(part, str) for part in line):
        raise ToolSourceError(f"{name!r} is not a server of MCP_STDIO_SERVERS.")
    return line
