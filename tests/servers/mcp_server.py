"""A real MCP server of the official SDK, as a process of its own: `mcp_server.py stdio`, or `mcp_server.py http PORT`."""

import os
import sys
import time

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("library")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def count_books(shelf: str) -> dict[str, object]:
    """Counts the books of a shelf of the library."""
    return {"shelf": shelf, "books": len(shelf) * 10}


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def burn_books(shelf: str) -> str:
    """Burns every book of a shelf."""
    return f"burnt {shelf}"


@server.tool(annotations=READS)
def fail(reason: str) -> str:
    """Fails, and says why."""
    raise ToolError(reason)


@server.tool(annotations=READS)
def sleep(seconds: float) -> str:
    """Sleeps."""
    time.sleep(seconds)
    return "awake"


@server.tool(annotations=READS)
def environment() -> str:
    """Names the variables that this server was given."""
    return " ".join(sorted(os.environ))


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
