"""A question that comes while too much is asked: refused by its name at every door, and nothing of it is kept."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.test import AsyncClient, TestCase
from django.test.utils import CaptureQueriesContext

from agents.models import Deployment
from chat.doors.places import with_places
from chat.models import Turn
from chat.runs.admission import admission
from config.asgi import application
from config.headers import secured_alone
from tests.factories import make_api_key, make_library
from tests.sockets import Socket

QUESTION = "Quels sont les horaires d'ouverture de la bibliothèque ?"


@pytest.fixture
def _overload() -> Iterator[None]:
    """No place, and a line that has stood for long."""
    with mock.patch.object(admission, "_taken", 10_000), lines_stand_since(-1e9):
        yield


@contextmanager
def lines_stand_since(since: float | None) -> Iterator[None]:
    with ExitStack() as patched:
        for line in (admission._asking, admission._opening):
            patched.enter_context(mock.patch.object(line, "_since", since))
        yield


async def over_asgi(path: str, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Through everything that the server calls, as JSON."""
    payload, sent = json.dumps(body).encode(), list[Any]()
    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
        "headers": [
            *((b"host", b"testserver"), (b"content-type", b"application/json")),
            (b"content-length", str(len(payload)).encode()),
        ],
    }
    parts = [{"type": "http.request", "body": payload, "more_body": False}]

    async def receive() -> Any:
        if parts:
            return parts.pop()
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(b"".join(m.get("body", b"") for m in sent[1:]))


@pytest.mark.usefixtures("_overload")
class OverloadTests(TestCase):
    deployment: Deployment
    secret: str

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()
        cls.secret = make_api_key(cls.deployment)

    async def test_http(self) -> None:
        body = {"message": QUESTION, "deployment": self.deployment.slug}
        response = await AsyncClient().post("/api/rag/chat", body, "application/json")
        assert response.status_code == 503
        assert response.json()["code"] == "overloaded"
        assert response["Retry-After"] == "2"
        assert not await Turn.objects.aexists()

    async def test_nothing_is_spent_on_it(self) -> None:
        """Refused outside of Django: no session is looked at, and no statement runs."""
        opening = {"deployment": self.deployment.slug}
        for path in ("/api/conversations/", "/api/rag/chat"):
            with CaptureQueriesContext(connection) as statements:
                status, headers, told = await over_asgi(path, {**opening, "message": QUESTION})
            assert (status, told["code"]) == (503, "overloaded")
            assert headers["retry-after"] == "2"
            assert "content-security-policy" in headers
            assert not statements.captured_queries

    async def test_place_is_taken_once_the_body_is_there(self) -> None:
        """Who sends slowly keeps nobody waiting; the place is left however the request ends."""
        parts = [{"type": "http.request", "body": b"", "more_body": more} for more in (True, False)]
        taken = []

        async def inner(_scope: Any, receive: Any, _send: Any) -> None:
            for _part in range(2):
                await receive()
                taken.append(admission._taken)
            raise RuntimeError("any failure")

        async def receive() -> Any:
            return parts.pop(0)

        scope = {"method": "POST", "path": "/api/conversations/", "headers": []}
        with mock.patch.object(admission, "_taken", 0):
            with pytest.raises(RuntimeError):
                await with_places(inner, secured_alone)(scope, receive, None)
            assert (taken, admission._taken) == ([0, 1], 0)

    async def test_openai(self) -> None:
        for path in ("chat/completions", "completions", "responses"):
            response = await AsyncClient().post(
                f"/v1/{path}",
                {
                    "model": self.deployment.slug,
                    "messages": [{"role": "user", "content": QUESTION}],
                    "prompt": QUESTION,
                    "input": QUESTION,
                },
                "application/json",
                headers={"Authorization": f"Bearer {self.secret}"},
            )
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "overloaded"
            assert response["Retry-After"] == "2"

    async def test_socket_takes_it_when_it_comes_again(self) -> None:
        client, opening = AsyncClient(), {"deployment": self.deployment.slug}
        created = await client.post("/api/conversations/", opening, "application/json")
        socket = Socket(f"/ws/chat/{created.json()['id']}/", client)
        await socket.open()
        await socket.send(type="ask", message=QUESTION, clientMessageId="a")
        [told] = await socket.until_end()
        assert (told["code"], told["retryable"]) == ("overloaded", True)
        assert told["retryAfter"] > 0
        admission._taken = 0
        await socket.send(type="ask", message=QUESTION, clientMessageId="a")
        assert (await socket.until_end())[-1]["type"] == "done"
        await socket.close()
