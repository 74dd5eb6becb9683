"""Knocking at the doors of readers and programs: pages, the API, `/v1`, the widget."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any

from django.test import AsyncClient, Client

from agents.database import in_database
from chat.access.permissions import passage_token, visitor_of
from tests.doors.catalogue import Door
from tests.doors.world import CALL, MARK, SITE, WIDGET, World, Writes, make_closed, make_owned, settled, widget_token
from tests.factories import make_api_key, make_service_token, make_user

COLUMNS = (
    "nobody",
    "stranger",
    "owner",
    "forged",
    "person",
    "superuser",
    "key",
    "service",
    "widget",
    "widget stranger",
)
QUESTION = "Quels sont les horaires d'ouverture de la bibliothèque ?"
#: What a door is sent that takes more than an empty object, by its name.
_BODIES: dict[str, dict[str, Any]] = {
    "conversation-list": {"deployment": "public"},
    "conversation-detail": {"title": "Autre"},
    "rag-chat": {"message": QUESTION, "deployment": "public"},
    "turn-approvals": {"toolCallId": CALL, "approved": False},
    "message-feedback": {"verdict": "up"},
    "message-help": {"consent": True},
    "widget-ask": {"message": QUESTION},
    "widget-feedback": {"verdict": "up"},
    "widget-help": {"consent": True},
    "v1-chat-completions": {"model": "public", "messages": [{"role": "user", "content": QUESTION}]},
}
_BODIES |= {"v1-completions": {"model": "public", "prompt": QUESTION}}
#: Doors that are tried a second time where the deployment is for others, by name: what changes.
_CLOSED_BODIES: dict[str, dict[str, Any]] = {
    "conversation-list": {"deployment": "closed"},
    "rag-chat": {"message": QUESTION, "deployment": "closed"},
    **{name: {**body, "model": "closed"} for name, body in _BODIES.items() if name.startswith("v1-")},
}
#: Doors that go on in a conversation of the owner's where its id is sent.
_CONTINUED = {"rag-chat", "widget-ask"}
_CLOSED = {
    *_CLOSED_BODIES,
    "chat-deployment",
    "chat-conversation",
    "cited-passage",
    "cited-page-image",
    "conversation-detail",
    "conversation-messages",
    "conversation-export",
    "v1-model",
    "widget-frame",
}


@dataclass(frozen=True, slots=True)
class Knock:
    """One request, apart from who sends it."""

    door: Door
    method: str
    variant: str = ""

    @property
    def is_closed(self) -> bool:
        return self.variant == "closed"

    def __str__(self) -> str:
        return f"{self.method} /{self.door.route}{f' ({self.variant})' if self.variant else ''}"


def knocks(doors: list[Door]) -> Iterator[Knock]:
    for door in doors:
        methods = "GET POST PUT PATCH DELETE" if door.route.startswith("api/") else "GET POST"
        for method in methods.split():
            yield Knock(door, method)
            if door.name in _CLOSED:
                yield Knock(door, method, "closed")
            if door.name in _CONTINUED:
                yield Knock(door, method, "in it")


class Visitors:
    """The callers, each with what they carry; and the rows that are theirs, made anew when one was changed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cookies: dict[str, SimpleCookie] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self._owner = self._widget = uuid.uuid4()
        self.operation = ""
        self._carry_tokens()
        self.sign_in()
        self.renew()

    def _carry_tokens(self) -> None:
        self._widget = uuid.uuid4()
        deployment = self.world.deployment
        bearers = {"key": make_api_key(deployment), "service": make_service_token()[1]}
        self.headers = {role: {"Authorization": f"Bearer {it}"} for role, it in bearers.items()}
        for role, visitor in (("widget", self._widget), ("widget stranger", uuid.uuid4())):
            token = widget_token(deployment, visitor)
            self.headers[role] = {"Authorization": f"Visitor {token}"}

    def sign_in(self) -> None:
        """Sessions of those who have one; one of them may have signed out."""
        for role in ("stranger", "owner", "person", "superuser"):
            client = Client()
            if role in ("person", "superuser"):
                is_all = role == "superuser"
                client.force_login(make_user(is_staff=is_all, is_superuser=is_all))
            else:
                client.get("/login/")
                session = client.session
                visitor = visitor_of(session)
                session.save()
                client.cookies["sessionid"] = str(session.session_key)
                if role == "owner":
                    self._owner = visitor
            self.cookies[role] = client.cookies
        self.cookies["forged"] = self.cookies["owner"]

    def renew(self) -> None:
        self.operation = str(uuid.uuid4())
        make_owned(self.world, "page", visitor=self._owner)
        make_owned(self.world, "widget", visitor=self._widget, **WIDGET)
        make_closed(self.world, visitor=self._owner)

    def client(self, role: str) -> AsyncClient:
        """A browser with a copy of the cookies of this role."""
        client = AsyncClient(enforce_csrf_checks=role == "forged")
        client.cookies = SimpleCookie({k: v.value for k, v in self.cookies.get(role, {}).items()})
        return client

    async def row(self, knock: Knock) -> list[str] | None:
        """What each role meets; `None` where there is no such method at this door, for whoever is admitted to it."""
        met = {role: await self.knock(knock, role) for role in ("service", "widget")}
        if "·" in met.values():
            return None
        return [met.get(role) or await self.knock(knock, role) for role in COLUMNS]

    async def knock(self, knock: Knock, role: str) -> str:
        """What this role meets, as a cell of the table."""
        response, body, written = await self.send(knock, role)
        if knock.door.name == "logout":
            await in_database(self.sign_in)
        if written or knock.door.name == "logout":
            await in_database(self.renew)
        if knock.door.name == "readyz" and response.status_code in (200, 503):
            # It says how the machine is, to everybody alike; `tests/integration/config/test_readiness.py` looks at
            # which.
            return "200 or 503"
        return outcome(response, body, written)

    async def send(self, knock: Knock, role: str, **changed: Any) -> tuple[Any, str, bool]:
        """The answer to this role, its whole body, and whether anything was written.

        `changed` stands in the place of what is sent otherwise: `address`, `data`, `content_type`, `headers`.
        """
        client = self.client(role)
        headers = {**self.headers.get(role, {}), **self._more_headers(knock)}
        headers |= changed.pop("headers", {})
        address = changed.pop("address", None) or self.address(knock)
        writes = Writes()
        await in_database(writes.start)
        try:
            send = getattr(client, knock.method.lower())
            response = await send(address, **{**self._sent(knock), **changed}, headers=headers)
            body = await _whole(response)
            await settled()
        finally:
            written = await in_database(writes.stop)
        return response, body, written

    def address(self, knock: Knock) -> str:
        door, world = knock.door, self.world
        owner = "closed" if knock.is_closed else "widget" if "widget" in door.route else "page"
        turn = world.answered[owner]
        if door.name == "turn-retry":
            turn = world.interrupted[owner]
        if door.name == "turn-approvals":
            turn = world.waiting[owner]
        deployment = world.closed if knock.is_closed else world.deployment
        values = {
            "slug": deployment.slug,
            "public_key": deployment.public_key,
            "conversation_id": turn.conversation_id,
            "pk": turn.conversation_id,
            "turn_id": turn.pk,
            "message_id": self.world.answers[owner],
            "rest": "none",
            "digest": world.deployment.logo_id,
            "number": 1,
            "uidb36": "1",
            "key": "2-3",
            "page": 1,
            "token": passage_token(turn.pk, 1),
        }
        return "/" + door.route.format(**values)

    def _more_headers(self, knock: Knock) -> dict[str, str]:
        if knock.door.name != "chat-session-batch":
            return {}
        named = {"Idempotency-Key": self.operation, "X-Operation-ID": self.operation}
        return {**named, "X-Relance-Index": "1", "If-Match": "*"}

    def body(self, knock: Knock) -> dict[str, Any]:
        """What is sent to this door, as an object."""
        sent = self._sent(knock).get("data", "{}")
        found: dict[str, Any] = sent if isinstance(sent, dict) else json.loads(sent)
        return found

    def _sent(self, knock: Knock) -> dict[str, Any]:
        name = knock.door.name
        if knock.method == "GET":
            return {"data": {"origin": SITE}} if name == "widget-frame" else {}
        body = (_CLOSED_BODIES if knock.is_closed else _BODIES).get(name, {})
        if name == "widget-stop":
            body = {"conversationId": str(self.world.answered["widget"].conversation_id)}
        if name == "conversation-delete-several":
            body = {"ids": [str(self.world.answered["page"].conversation_id)]}
        if name == "conversation-branch":
            body = {"turnId": str(self.world.answered["page"].pk)}
        if name == "chat-session-batch":
            body = _batch(self.operation)
        if knock.variant == "in it":
            owner = "widget" if name == "widget-ask" else "page"
            body = {**body, "conversationId": str(self.world.answered[owner].conversation_id)}
        return {"data": json.dumps(body), "content_type": "application/json"}


def _batch(operation: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "book", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": "c",
                "name": "book",
                "content": "{}",
                "timestamp": "2026-03-01T10:00:00Z",
                "relance_index": 1,
            },
        ],
        "operation_id": operation,
        "relance_index": 1,
    }


async def _whole(response: Any) -> str:
    if not response.streaming:
        return str(response.content.decode(errors="replace"))
    if response.is_async:
        return b"".join([piece async for piece in response]).decode()
    return b"".join(response).decode(errors="replace")


def outcome(response: Any, body: str, has_written: bool) -> str:
    if response.status_code == 405:
        return "·"
    location = response.headers.get("Location", "")
    if response.status_code == 302 and "/login/" in location:
        return "sign-in"
    marks = " r" * (MARK in body) + " w" * has_written
    return f"{response.status_code}{marks}"
