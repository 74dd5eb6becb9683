"""Starts `mcp_server.py`, a real server of the official SDK, over streamable HTTP and in a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.ports import free_port

SERVER = Path(__file__).with_name("mcp_server.py")
#: As the setting `MCP_STDIO_SERVERS` names it.
STDIO = {"library": [sys.executable, str(SERVER), "stdio"]}
_START_SECONDS = 90


@contextmanager
def mcp_over_http(port: int | None = None) -> Iterator[str]:
    """The address of the server, which listens once this is entered."""
    port = port or free_port()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(SERVER), "http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
