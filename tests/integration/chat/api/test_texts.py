"""What every door of `/api` and `/v1` reads: no text that is none, no session without its token, the examples of the schema."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from django.test import AsyncClient, Client, TestCase
from drf_spectacular.generators import SchemaGenerator

from agents.database import in_database
from chat.access.permissions import WidgetVisitor
from chat.api.framework import EXAMPLES
from chat.models import Conversation, Feedback, Message
from config.version import VERSION
from tests.factories import make_api_key, make_deployment, make_library, make_service_token
from tests.integration.chat.turn.test_path import KNOWN
from tests.readers import ReaderTest
from tests.sockets import Socket

SITE = "https://www.example.org"
HALF = "Où\ud800 ?"
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

    def refused(self, method: str, path: str, body: Any, status: int = 400, **headers: str) -> None:
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

    def test_questions(self) -> None:
        body = {
            "message": KNOWN,
            "conversationId": self.nowhere,
            "clientMessageId": "a",
            "deployment": self.deployment.slug,
            "replaces": self.nowhere,
            "phase": "p",
            "project": "q",
        }
        self.refused("POST", "/api/rag/chat", body)

    def test_widget(self) -> None:
        token = WidgetVisitor(self.deployment, SITE, uuid.uuid4()).token()
        body = {"message": KNOWN, "conversationId": self.nowhere, "clientMessageId": "a", "language": "fr"}
        self.refused("POST", "/widget/ask", body, Authorization=f"Visitor {token}")
        stop = {"conversationId": self.nowhere}
        self.refused("POST", "/widget/stop", stop, Authorization=f"Visitor {token}")

    def test_completions(self) -> None:
        body = {
            "model": "no-such-deployment",
            "messages": [
                {"role": "system", "content": "x"},
                {"role": "user", "content": [{"type": "text", "text": KNOWN}], "name": "n"},
            ],
            "stream_options": {},
            "user": "u",
        }
        secret = make_api_key(self.deployment)
        self.refused("POST", "/v1/chat/completions", body, Authorization=f"Bearer {secret}")

    def test_conversations(self) -> None:
        opened = {"deployment": "no-such", "phase": "p", "project": "q"}
        own = f"/api/conversations/{self.conversation.pk}/"
        self.refused("POST", "/api/conversations/", opened)
        self.refused("PATCH", own, {"title": "Titre"})
        self.refused("POST", f"{own}branch/", {"turnId": self.nowhere})

    def test_verdicts_and_approvals(self) -> None:
        feedback = f"/api/messages/{self.answer.pk}/feedback"
        verdict = {"verdict": "down", "reason": "incomplete", "comment": "Non."}
        self.refused("POST", feedback, verdict)
        assert "\0" not in "".join(Feedback.objects.values_list("comment", flat=True))
        approvals = f"/api/rag/turns/{self.turn.pk}/approvals"
        self.refused("POST", approvals, {"toolCallId": "c", "approved": True})

    def test_batches(self) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        answer = {
            "role": "tool",
            "tool_call_id": "c",
            "name": "t",
            "content": "{}",
            "timestamp": "2026-03-01T10:00:00Z",
            "relance_index": 0,
            "error": "e",
        }
        body = {
            "messages": [{"role": "assistant", "content": "x", "tool_calls": [call]}, answer],
            "operation_id": self.nowhere,
            "relance_index": 0,
        }
        _token, secret = make_service_token()
        path = f"/api/ui/chat-sessions/{self.conversation.pk}/messages/batch"
        before = Message.objects.count()
        headers = {"Idempotency-Key": "k", "X-Operation-ID": self.nowhere, "X-Relance-Index": "0", "If-Match": "*"}
        self.refused("POST", path, body, 422, Authorization=f"Bearer {secret}", **headers)
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
        form = b'--x\r\nContent-Disposition: form-data; name="username"\r\n\r\n\\ud800\xed\xa0\x80\0\r\n--x--\r\n'
        for path in ("/login/", "/admin/login/", "/i18n/setlang/"):
            for kind, body in (
                ("multipart/form-data; boundary=x", form),
                ("application/x-www-form-urlencoded", b"username=%ED%A0%80%00"),
            ):
                for encoding in ("hex", "unicode_escape", "utf-7", "utf-16", "idna"):
                    sent = Client().generic("POST", path, body, f"{kind}; charset={encoding}")
                    assert (sent.status_code, sent.json()["code"]) == (400, "invalid_message")
                for suffix in ("", "; charset=utf-8", "; charset=nowhere"):
                    sent = Client().generic("POST", path, body, kind + suffix)
                    assert sent.status_code in (200, 302), (path, kind, suffix)


class FrameTests(TestCase):
    async def test_frames(self) -> None:
        client = AsyncClient()
        body = {"deployment": (await in_database(make_library)).slug}
        created = await client.post("/api/conversations/", body, "application/json")
        socket = Socket(f"/ws/chat/{created.json()['id']}/", client)
        await socket.open()
        nowhere = str(uuid.uuid4())
        for frame in (
            {"type": "ask", "message": KNOWN, "clientMessageId": "a", "replaces": nowhere},
            {"type": "resume", "turnId": nowhere, "lastEventId": "1"},
            {"type": "approve", "turnId": nowhere, "toolCallId": "c"},
            {"type": "stop"},
        ):
            for changed in spoilt(frame, HALF):
                for is_escaped in (True, False):
                    await socket.send_text(json.dumps(changed, ensure_ascii=is_escaped))
                    told = await socket.receive()
                    assert (told["type"], told["code"]) == ("error", "invalid_message"), changed
            for encoding in OTHER_ENCODINGS:
                await socket.send_bytes(json.dumps(frame).encode(encoding))
                assert (await socket.receive())["code"] == "invalid_message"
        await socket.send(type="ask", message=KNOWN)
        assert (await socket.until_end())[-1]["type"] == "done"
        await socket.close()


class CrossSiteTests(ReaderTest):
    """Whatever carries a session changes nothing for another site: a visitor's no less than that of somebody signed in."""

    def setUp(self) -> None:
        super().setUp()
        visitor, self.client = self.client, Client(enforce_csrf_checks=True)
        self.client.cookies = visitor.cookies

    def test_the_pages_own_token_opens_them(self) -> None:
        self.client.get("/")
        token = self.client.cookies["csrftoken"].value
        url = f"/api/conversations/{self.conversation.pk}/"
        assert self.client.delete(url).status_code == 403
        assert self.client.delete(url, headers={"X-CSRFToken": token}).status_code == 204


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
        assert {"rag_chat", "conversations_delete_several", *below} <= set(operations)

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
