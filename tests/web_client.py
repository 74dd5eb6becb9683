"""A visitor of a served site, over real sockets: for tests with real web processes."""

import json
import time
import uuid
from contextlib import suppress
from typing import Any

import httpx2
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin


class Visitor:
    """One conversation, reached through whichever address is named."""

    def __init__(self, url: str, deployment: str) -> None:
        self._http = httpx2.Client(timeout=90, trust_env=False)
        self.conversation_id = str(self.call(f"{url}/api/conversations/", {"deployment": deployment})["id"])

    def call(self, url: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        token = {"X-CSRFToken": self._http.cookies.get("csrftoken") or ""}
        found: dict[str, Any]
        found = (
            self._http.request("GET" if data is None else "POST", url, json=data, headers=token)
            .raise_for_status()
            .json()
        )
        return found

    def thread(self, url: str) -> dict[str, Any]:
        return self.call(f"{url}/api/conversations/{self.conversation_id}/messages/")

    def socket(self, url: str, *, max_queue: int | None = None) -> "Page":
        cookie = "; ".join(f"{c.name}={c.value}" for c in self._http.cookies.jar)
        address = f"ws{url.removeprefix('http')}/ws/chat/{self.conversation_id}/"
        patience: dict[str, Any] = {"max_size": None, "max_queue": max_queue, "open_timeout": 90, "legacy": True}
        return Page(connect(address, additional_headers={"Cookie": cookie}, origin=Origin(url), **patience))

    def end_of(self, url: str, message: str, client_message_id: str, page: "Page | None" = None) -> dict[str, Any]:
        """The last frame of a message; what is closed, lost or refused for now is sent again under its id, over a new
        socket, as the page does it.
        """
        for _connection in range(180):
            with suppress(OSError, WebSocketException):
                if page is None:
                    page = self.socket(url)
                    page.ask(message, client_message_id)
                frame = page.until_end()[-1]
                if frame.get("code") != "storage_unavailable":
                    return frame
            page = None
            time.sleep(0.5)
        raise AssertionError("The site does not come back.")


class Page:
    """One socket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def ask(self, message: str, client_message_id: str = "") -> None:
        identifier = client_message_id or str(uuid.uuid4())
        self.send(type="ask", message=message, clientMessageId=identifier)

    def send(self, **frame: Any) -> None:
        self.connection.send(json.dumps(frame))

    def receive(self, timeout: float = 90) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self.connection.recv(timeout))
        return frame

    def until(self, kind: str) -> dict[str, Any]:
        while (frame := self.receive())["type"] != kind:
            assert frame["type"] not in ("done", "error"), frame
        return frame

    def until_end(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["type"] not in ("done", "error"):
            frames.append(self.receive())
        return frames

    def close_code(self) -> int | None:
        try:
            while True:
                self.connection.recv(90)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None

    def close(self) -> None:
        self.connection.close()


def text_of(frames: list[dict[str, Any]]) -> str:
    return "".join(frame["text"] for frame in frames if frame["type"] == "delta")
