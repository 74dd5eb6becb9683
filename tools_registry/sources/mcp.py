"""Tools of MCP servers, through the official SDK: over stdio, and over streamable HTTP. The only file that imports it.

Connections stay open between calls (`sessions`) and end with this process. Local servers are those of the setting `MCP_STDIO_SERVERS`, with a bare environment; remote ones
obey `sources.network`. Every wait is bounded by the source's own delay.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from django.conf import settings

from agents.network import guarded_async_client, host_of
from tools_registry.exceptions import (
    ToolError,
    ToolFailedError,
    ToolReportedError,
    ToolSourceError,
    ToolTimeoutError,
)
from tools_registry.models import SourceKind
from tools_registry.sources.base import DeclaredTool, SourceAddress
from tools_registry.sources.network import reach_of, resolved_headers
from tools_registry.sources.sessions import Sessions
from tools_registry.tool import Arguments

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

#: Pages of a server's list that are read; a list without end is no list.
_PAGES = 20


def list_tools(address: SourceAddress) -> list[DeclaredTool]:
    """What the server declares now. Raises `ToolError`."""

    async def listing(client: "Client") -> list[DeclaredTool]:
        found: list[DeclaredTool] = []
        cursor: str | None = None
        for _page in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            found.extend(
                DeclaredTool(
                    name=tool.name,
                    description=tool.description or tool.title or "",
                    parameters=tool.input_schema,
                    needs_approval=bool(tool.annotations and tool.annotations.destructive_hint),
                )
                for tool in page.tools
            )
            cursor = page.next_cursor
            if not cursor:
                return found
        raise ToolSourceError(f"The list of tools has more than {_PAGES} pages.")

    return _run(address, listing)


def call_tool(address: SourceAddress, name: str, arguments: Arguments) -> object:
    """The tool's result. Raises `ToolReportedError` with the server's words where the tool says that it failed."""

    async def calling(client: "Client") -> object:
        result = await client.call_tool(name, dict(arguments))
        blocks = [
            block.text if block.type == "text" else f"({block.type})" for block in result.content
        ]
        if result.is_error:
            raise ToolReportedError("\n".join(blocks) or f"{name} failed.")
        if result.structured_content is not None:
            return result.structured_content
        return blocks[0] if len(blocks) == 1 else blocks

    return _run(address, calling)


async def _ping(client: "Client") -> object:
    # The newest version of the protocol has no ping; every server can list.
    return await client.list_tools()


_sessions: "Sessions[Client]" = Sessions(ping=_ping)
#: Ends every connection; for tests.
close_sessions = _sessions.close


def _run(address: SourceAddress, work: "Callable[[Client], Awaitable[T]]") -> T:
    local = address.kind == SourceKind.MCP_STDIO
    where = tuple(_command_line(address.command)) if local else (address.url,)
    # Another address, secret or delay is another connection.
    key = (where, tuple(sorted(resolved_headers(address.headers).items())), address.timeout_seconds)
    try:
        return _sessions.run(
            key, partial(_connected, address), work, seconds=address.timeout_seconds
        )
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
            parameters = StdioServerParameters(
                command=command, args=arguments, env=resolved_headers(address.headers)
            )
            transport = stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
        else:
            http: httpx2.AsyncClient = await stack.enter_async_context(
                guarded_async_client(
                    reach_of([host_of(address.url, ToolSourceError)]),
                    timeout=address.timeout_seconds,
                    headers=resolved_headers(address.headers),
                )
            )
            transport = streamable_http_client(
                address.url,
                http_client=http,
                max_sse_event_size=settings.TOOL_MAX_RESPONSE_BYTES,
            )
        client = Client(transport, read_timeout_seconds=address.timeout_seconds, cache=None)
        yield await stack.enter_async_context(client)


def _command_line(name: str) -> list[str]:
    servers: Mapping[str, Any] = settings.MCP_STDIO_SERVERS
    line = servers.get(name)
    if not isinstance(line, list) or not line or not all(isinstance(part, str) for part in line):
        raise ToolSourceError(f"{name!r} is not a server of MCP_STDIO_SERVERS.")
    return line
