"""MCP servers: what becomes of a call whose connection ends badly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tools_registry.errors import ToolError
from tools_registry.sources import mcp
from tools_registry.sources.base import SourceAddress

ADDRESS = SourceAddress(
    kind="mcp_http", command="", url="", document="", allowed_hosts=(), headers={}, timeout_seconds=5.0
)


@pytest.mark.parametrize("ran", [True, False])
def test_result_stands_although_the_connection_ends_badly(ran: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connected(_address: SourceAddress) -> AsyncIterator[str]:
        yield "client"
        raise ConnectionResetError("the server went away")

    async def work(client: str) -> str:
        if not ran:
            raise ValueError("no answer")
        return f"asked by {client}"

    monkeypatch.setattr(mcp, "_connected", connected)
    if ran:
        assert mcp._run(ADDRESS, work) == "asked by client"  # type: ignore[arg-type]
    else:
        with pytest.raises(ToolError):
            mcp._run(ADDRESS, work)  # type: ignore[arg-type]
