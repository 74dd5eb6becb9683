"""A WebSocket of the tests, straight to the ASGI application (Channels' own communicator needs daphne)."""

import json
from typing import Any

import channels.db
from asgiref.testing import ApplicationCommunicator
from django.db import close_old_connections, connections
from django.test import AsyncClient

from config.asgi import application
from tests.waiting import PATIENCE_SECONDS


def _close_unless_in_a_test_transaction() -> None:
    if not any(connection.in_atomic_block for connection in connections.all(True)):
        close_old_connections()


# Channels' session and user lookups would close the connection that holds the test's transaction.
channels.db.close_old_connections = _close_unless_in_a_test_transaction


class Socket(ApplicationCommunicator):
    """One socket with the cookies of a client."""

    def __init__(self, path: str, client: AsyncClient, origin: str = "http://localhost") -> None:
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
        headers = [(b"host", b"localhost"), (b"origin", origin.encode()), (b"cookie", cookie.encode())]
        scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b"", "subprotocols": []}
        super().__init__(application, scope)

    async def open(self) -> None:
        await self.send_input({"type": "websocket.connect"})
        assert (await self.receive_output(PATIENCE_SECONDS))["type"] == "websocket.accept"

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_bytes(self, data: bytes) -> None:
        await self.send_input({"type": "websocket.receive", "bytes": data})

    async def send(self, **frame: Any) -> None:
        await self.send_text(json.dumps(frame))

    async def receive(self, timeout: float = PATIENCE_SECONDS) -> dict[str, Any]:  # noqa: ASYNC109  # asgiref's own form
        output = await self.receive_output(timeout)
        assert output["type"] == "websocket.send", output
        frame: dict[str, Any] = json.loads(output["text"])
        return frame

    async def receive_close(self) -> int:
        output = await self.receive_output(PATIENCE_SECONDS)
        assert output["type"] == "websocket.close", output
        code: int = output["code"]
        return code

    async def until_end(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["type"] not in ("done", "error"):
            frames.append(await self.receive())
        return frames

    async def begun(self) -> None:
        """Wait for the first text."""
        while (await self.receive())["type"] != "delta":
            pass

    async def close(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(PATIENCE_SECONDS)
