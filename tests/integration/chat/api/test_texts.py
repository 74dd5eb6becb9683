"""What every door of `/api` and `/v1` reads: no text that is none, no body beyond its bound, the examples of the schema."""

import asyncio
import json
import uuid
from collections.abc import Iterator
from typing import Any
from unittest import mock

from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client, TestCase
from drf_spectacular.generators import SchemaGenerator

from agents.database import in_database
from chat.access.permissions import WidgetVisitor
from chat.api.batches import MAX_BATCH_BYTES
from chat.api.framework import EXAMPLES
from chat.api.openai import API_MAX_BODY_BYTES
from chat.models import Conversation, Feedback, Message
from config.asgi import django_application
from config.version import VERSION
from tests.factories import make_api_key, make_deployment, make_service_token
from tests.integration.chat.turn.test_path import KNOWN
from tests.readers import LibraryCase, ReaderTest

SITE = "https://www.example.org"
HALF = "Où\ud800 ?"
LONG = 3 * 1024**2
OTHER_ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


def spoilt(value: Any, text: str) -> Iterator[Any]:
    """The value with the text in each place that may hold one: each text, each name of a field, and one more field."""
    if isinstance(value, str):
        yield text
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for changed in spoilt(item, text):
                yield [*value[:number], changed, *value[number + 1 :]]
    elif isinstance(value, dict):
        yield {**value, text: text}
        for name, item in value.items():
            yield {text if key == name else key: kept for key, kept in value.items()}
            for changed in spoilt(item, text):
                yield {**value, name: changed}


def unreadable(body: Any) -> Iterator[bytes]:
    for changed in spoilt(body, HALF):
        yield json.dumps(changed).encode()
        yield json.dumps(changed, ensure_ascii=False).encode(errors="surrogatepass")
    for encoding in OTHER_ENCODINGS:
        yield json.dumps(body).encode(encoding)
        yield json.dumps(next(spoilt(body, HALF)), ensure_ascii=False).encode(encoding, errors="surrogatepass")
    yield json.dumps(body, ensure_ascii=False).encode() + b"\xff"


class TextTests(ReaderTest):
    """Each body names something that is not there, so that nothing is begun where its text is taken."""

    def setUp(self) -> None:
        super().setUp()
        self.deployment.allowed_origins = SITE
        self.deployment.save()
        self.nowhere = str(uuid.uuid4())

    def refused(self, method: str, path: str, body: Any, headers: dict[str, str], status: int = 400) -> None:
        """Whatever is no text, with a code; a zero character is each field's own matter, and no failure."""
        client = Client()
        client.cookies = self.client.cookies
        for said in unreadable(body):
            response = client.generic(method, path, said, "application/json", headers=headers)
            assert response.status_code == status, (said, response.content)
            told = response.json()
            assert told.get("error", told)["code"] == "invalid_message", said
        for changed in spoilt(body, "\0"):
            said = json.dumps(changed).encode()
            response = client.generic(method, path, said, "application/json", headers=headers)
            assert response.status_code < 500, said

    def test_whatever_is_no_text_is_refused_at_every_door(self) -> None:
        own = f"/api/conversations/{self.conversation.pk}/"
        message = {"message": KNOWN, "conversationId": self.nowhere, "clientMessageId": "a"}
        question = {
            **message,
            "deployment": self.deployment.slug,
            "replaces": self.nowhere,
            "phase": "p",
            "project": "q",
        }
        said = [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": KNOWN}]}]
        visitor = {"Authorization": f"Visitor {WidgetVisitor(self.deployment, SITE, uuid.uuid4()).token()}"}
        key = {"Authorization": f"Bearer {make_api_key(self.deployment)}"}
        doors: list[tuple[str, str, Any, dict[str, str]]] = [
            ("POST", "/api/rag/chat", question, {}),
            ("POST", "/widget/ask", {**message, "language": "fr"}, visitor),
            ("POST", "/widget/stop", {"conversationId": self.nowhere}, visitor),
            ("POST", "/v1/chat/completions", {"model": "absent", "messages": said, "stream_options": {}}, key),
            ("POST", "/api/conversations/", {"deployment": "absent", "phase": "p", "project": "q"}, {}),
            ("PATCH", own, {"title": "Titre"}, {}),
            ("POST", f"{own}branch/", {"turnId": self.nowhere}, {}),
            ("POST", f"/api/messages/{self.answer.pk}/feedback", {"verdict": "down", "comment": "Non."}, {}),
            ("POST", f"/api/rag/turns/{self.turn.pk}/approvals", {"toolCallId": "c", "approved": True}, {}),
        ]
        for method, path, body, headers in doors:
            with self.subTest(path=path):
                self.refused(method, path, body, headers)
        assert "\0" not in "".join(Feedback.objects.values_list("comment", flat=True))

    def test_nor_is_it_stored_of_a_batch(self) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        request = {"role": "assistant", "content": "x", "tool_calls": [call]}
        answer = {"role": "tool", "tool_call_id": "c", "name": "t", "content": "{}", "error": "e", "relance_index": 0}
        messages = [request, {**answer, "timestamp": "2026-03-01T10:00:00Z"}]
        body = {"messages": messages, "operation_id": self.nowhere, "relance_index": 0}
        _token, secret = make_service_token()
        path = f"/api/ui/chat-sessions/{self.conversation.pk}/messages/batch"
        before = Message.objects.count()
        headers = {"Idempotency-Key": "k", "X-Operation-ID": self.nowhere, "X-Relance-Index": "0", "If-Match": "*"}
        self.refused("POST", path, body, {**headers, "Authorization": f"Bearer {secret}"}, 422)
        assert Message.objects.count() == before

    def test_encoding_that_a_header_names_changes_nothing(self) -> None:
        feedback = f"/api/messages/{self.answer.pk}/feedback"
        body = json.dumps({"verdict": "down", "comment": "été"}, ensure_ascii=False)
        for encoding in ("utf-16", "latin-1", "hex", "unicode_escape"):
            said = self.client.generic("POST", feedback, body.encode(), f"application/json; charset={encoding}")
            assert (said.status_code, said.json()["comment"]) == (200, "été")
        said = self.client.generic("POST", feedback, body.encode("latin-1"), "application/json; charset=latin-1")
        assert (said.status_code, said.json()["code"]) == (400, "invalid_message")

    def test_forms_are_read_in_utf8_alone(self) -> None:
        form = b'--x\r\nContent-Disposition: form-data; name="login"\r\n\r\n\\ud800\xed\xa0\x80\0\r\n--x--\r\n'
        for path in ("/login/", "/i18n/setlang/"):
            for kind, body in (
                ("multipart/form-data; boundary=x", form),
                ("application/x-www-form-urlencoded", b"login=%ED%A0%80%00"),
            ):
                for encoding in ("hex", "unicode_escape", "utf-7", "utf-16", "idna"):
                    sent = Client().generic("POST", path, body, f"{kind}; charset={encoding}")
                    assert (sent.status_code, sent.json()["code"]) == (400, "invalid_message")
                for suffix in ("", "; charset=utf-8", "; charset=nowhere"):
                    sent = Client().generic("POST", path, body, kind + suffix)
                    assert sent.status_code in (200, 302), (path, kind, suffix)


class ZeroByteTests(ReaderTest):
    """PostgreSQL takes no text with a zero byte: an address that holds one names nothing, and is no failure of ours."""

    def test_nothing_has_such_a_name(self) -> None:
        for address in ("/p/%00/", "/widget/%00/?origin=https://a.example", "/v1/models/%00"):
            headers = {"Authorization": f"Bearer {make_api_key(self.deployment)}"}
            assert self.client.get(address, headers=headers).status_code == 404, address
        listed = self.client.get("/api/conversations/?deployment=%00").json()
        assert listed["results"] == []
        found = self.client.get("/api/conversations/?q=salle%00").json()
        assert len(found["results"]) == 1
        asked = {"message": "Où ?", "deployment": "\0"}
        assert self.client.post("/api/rag/chat", asked, "application/json").status_code == 404


def _operations() -> dict[str, tuple[str, dict[str, Any]]]:
    generator: Any = SchemaGenerator
    paths = generator().get_schema(request=None, public=True)["paths"]
    return {
        operation["operationId"]: (path, operation) for path, found in paths.items() for operation in found.values()
    }


class SchemaExamplesTest(TestCase):
    def test_examples_stand_in_the_schema(self) -> None:
        operations = _operations()
        for name, example in EXAMPLES.items():
            body = operations[name][1]["requestBody"]["content"]["application/json"]
            assert body["example"] == example
        below = {"turn_events", "turn_retry", "turn_stop"}
        assert {"rag_chat", *below} <= set(operations)

    def test_a_version_that_a_caller_names_goes_into_no_header(self) -> None:
        for version in ("%0a", "%00", "x%22%3bfoo%3d1"):
            answer = self.client.get(f"/api/schema/?version={version}")
            assert answer.status_code == 200
            assert VERSION in answer["Content-Disposition"]

    async def test_examples_run(self) -> None:
        await in_database(lambda: make_deployment(slug="demo"))
        operations = _operations()
        for name in EXAMPLES:
            path = operations[name][0]
            if "{" not in path:
                response: Any = await self.async_client.post(path, EXAMPLES[name], content_type="application/json")
                assert response.status_code in (200, 201), (name, response.content)
                if response.streaming:
                    told = b"".join([part async for part in response])
                    assert b"event: done" in told
        assert await Conversation.objects.acount()


async def sent_in_chunks(path: str, body: bytes, *, token: str = "") -> tuple[int, Any]:
    """As uvicorn hands it on: no length, and more to come until the last piece."""
    pieces = [body[at : at + 64 * 1024] for at in range(0, len(body), 64 * 1024)] or [b""]
    sent: list[Any] = []

    async def receive() -> Any:
        if not pieces:
            await asyncio.sleep(60)
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    if token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope: Any = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    # In this thread and over its connection, which the end of a request would close.
    with mock.patch.object(BaseDatabaseWrapper, "close_if_unusable_or_obsolete"):
        await django_application.handle(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


class ChunkedBodyTests(LibraryCase):
    """A body is no longer than its door takes, whether its length was announced or it comes in chunks."""

    key: str
    service: str

    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        cls.key = make_api_key(cls.deployment)
        _row, cls.service = make_service_token()

    async def test_longer_one_is_refused_at_every_door(self) -> None:
        batch, completions = f"/api/ui/chat-sessions/{uuid.uuid4()}/messages/batch", "/v1/chat/completions"
        for path, length, token, code in (
            *((batch, length, self.service, "too_large") for length in (MAX_BATCH_BYTES + 1, LONG)),
            *((completions, length, self.key, "message_too_large") for length in (API_MAX_BODY_BYTES + 1, LONG)),
            *((path, LONG, "", "message_too_large") for path in ("/api/conversations/", "/api/rag/chat")),
        ):
            status, told = await sent_in_chunks(path, b" " * length, token=token)
            assert (status, told.get("error", told)["code"]) == (413, code), path

    async def test_short_one_is_read(self) -> None:
        body = json.dumps({"deployment": self.deployment.slug}).encode()
        status, _told = await sent_in_chunks("/api/conversations/", body)
        assert status == 201


class AnnouncedBodyTests(TestCase):
    def test_json_of_the_interface(self) -> None:
        response = self.client.post("/api/conversations/", b" " * 3 * 1024**2, "application/json")
        assert (response.status_code, response.json()["code"]) == (413, "message_too_large")
