"""Tools of MCP servers, through the official SDK: over stdio, and over streamable HTTP. The only file that imports it.

Each call has a connection of its own, and is never repeated: nobody knows whether the server ran it. Local servers are
those of the setting `MCP_STDIO_SERVERS`, with a bare environment; remote ones obey `sources.base`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from django.conf import settings
from pydantic import ValidationError

from agents.network import guarded_client, host_of
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
    resolved_variables,
)
from tools_registry.tool import Arguments

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ContentBlock
    from mcp_types import Tool as McpTool

T = TypeVar("T")

#: Pages of a server's list that are read; a list without end is no list.
_PAGES = 20


def list_tools(address: SourceAddress) -> ReadTools:
    """What the server declares now. Raises `ToolError`, also for a list that is not of the protocol."""

    async def listing(client: "Client") -> ReadTools:
        read = ReadTools()
        cursor: str | None = None
        for _number in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                if tool.execution is not None and tool.execution.task_support == "required":
                    read.refused.append((storable(tool.name), "it runs as a task only, which is not supported"))
                else:
                    read.tools.append(_declared(tool))
            cursor = page.next_cursor
            if not cursor:
                return read
        raise ToolSourceError(f"The list of tools has more than {_PAGES} pages.")

    return _run(address, listing)


def _declared(tool: "McpTool") -> DeclaredTool:
    return DeclaredTool(
        name=storable(tool.name),
        description=storable(tool.description or tool.title or ""),
        parameters=storable_value(tool.input_schema),
        needs_approval=_may_change_something(tool),
    )


def _may_change_something(tool: "McpTool") -> bool:
    """Unless it says that it only reads: a tool that says nothing may destroy, by the protocol."""
    hints = tool.annotations
    return hints is None or hints.read_only_hint is not True or hints.destructive_hint is True


def call_tool(address: SourceAddress, name: str, arguments: Arguments) -> object:
    """The tool's result. Raises `ToolReportedError` with the server's words where it says that the call was wrong,
    `ToolServerError` where it failed itself."""

    async def calling(client: "Client") -> object:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT

        # The SDK checks a result by what the list says of it: asked before the tool runs, not after.
        await client.list_tools()
        try:
            result = await client.call_tool(name, dict(arguments))
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise
            kind = ToolServerError if error.code == INTERNAL_ERROR else ToolReportedError
            raise kind(f"{error.message} ({error.code})") from error
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
    """A piece of a result as a model reads it: texts and links whole, images and other binaries by name."""
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
            return {**held, "text": _named(kind, blob)}
        case "resource_link":
            told = {
                "uri": str(block.uri),
                "name": block.title or block.name,
                "description": block.description,
                "type": block.mime_type,
            }
            return {"link": {key: value for key, value in told.items() if value}}
        case "image" | "audio":
            return _named(block.mime_type, block.data)


def _named(kind: str, encoded: str) -> str:
    return f"({kind or 'unknown kind'}, {len(encoded) * 3 // 4} bytes: not a text, not shown)"


def _run(address: SourceAddress, work: "Callable[[Client], Awaitable[T]]") -> T:
    """`work` with a new connection, within the source's delay; what it came to stands however the connection ends."""

    async def connected() -> T:
        done: list[T] = []
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(address.timeout_seconds):
                    done.append(await work(await stack.enter_async_context(_connected(address))))
        except Exception:
            if not done:
                raise
        return done[0]

    try:
        return asyncio.run(connected())
    except Exception as error:  # the SDK raises groups of anything; ours are taken out of them
        ours = _first_of_ours(error)
        if ours is not None:
            raise ours from error
        raise ToolFailedError(f"{type(error).__name__}: {error}") from error


def _first_of_ours(error: BaseException) -> ToolError | None:
    if isinstance(error, ToolError):
        return error
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        return ToolServerError(f"The server's answer is not what the protocol describes: {where}: {problem['msg']}")
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
            parameters = StdioServerParameters(
                command=command, args=arguments, env=resolved_variables(address.headers, address.command)
            )
            transport = stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)
        else:
            http: httpx2.AsyncClient = await stack.enter_async_context(
                guarded_client(
                    reach_of(address.headers, [host_of(address.url, ToolSourceError)]),
                    timeout=address.timeout_seconds,
                    headers=resolved_headers(address.headers, [host_of(address.url, ToolSourceError)]),
                )
            )
            transport = streamable_http_client(
                address.url, http_client=http, max_sse_event_size=TOOL_MAX_RESPONSE_BYTES
            )
        client = Client(transport, read_timeout_seconds=address.timeout_seconds, cache=None)
        yield await stack.enter_async_context(client)


def _command_line(name: str) -> list[str]:
    servers: Mapping[str, Any] = settings.MCP_STDIO_SERVERS
    line = servers.get(name)
    if not isinstance(line, list) or not line or not all(isinstance(part, str) for part in line):
        raise ToolSourceError(f"{name!r} is not a server of MCP_STDIO_SERVERS.")
    return line
