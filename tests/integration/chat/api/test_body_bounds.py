"""A body is no longer than its door takes, whether its length was announced or it comes in chunks."""

import asyncio
import json
from typing import Any
from unittest import mock
from uuid import uuid4

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TestCase

from agents.models import Deployment
from chat.api.batches import MAX_BATCH_BYTES
from chat.api.openai import API_MAX_BODY_BYTES
from chat.page import views
from config.asgi import django_application
from tests.factories import make_api_key, make_library, make_service_token


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


class ChunkedBodyTests(TestCase):
    deployment: Deployment
    key: str
    service: str

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()
        cls.key = make_api_key(cls.deployment)
        _row, cls.service = make_service_token()

    async def test_batches(self) -> None:
        path = f"/api/ui/chat-sessions/{uuid4()}/messages/batch"
        for length in (MAX_BATCH_BYTES + 1, 3 * 1024**2):
            status, told = await sent_in_chunks(path, b" " * length, token=self.service)
            assert (status, told["code"]) == (413, "too_large")

    async def test_openai(self) -> None:
        for length in (API_MAX_BODY_BYTES + 1, 3 * 1024**2):
            status, told = await sent_in_chunks("/v1/chat/completions", b" " * length, token=self.key)
            assert (status, told["error"]["code"]) == (413, "message_too_large")

    async def test_json_of_the_interface_and_a_question(self) -> None:
        for path in ("/api/conversations/", "/api/rag/chat"):
            status, told = await sent_in_chunks(path, b" " * 3 * 1024**2)
            assert (status, told["code"]) == (413, "message_too_large")

    async def test_short_one_is_read(self) -> None:
        body = json.dumps({"deployment": self.deployment.slug}).encode()
        status, _told = await sent_in_chunks("/api/conversations/", body)
        assert status == 201


class AnnouncedBodyTests(TestCase):
    def test_json_of_the_interface(self) -> None:
        response = self.client.post("/api/conversations/", b" " * 3 * 1024**2, "application/json")
        assert (response.status_code, response.json()["code"]) == (413, "message_too_large")

    def test_files_of_one_form_together(self) -> None:
        form = {"first": SimpleUploadedFile("a.txt", b"a" * 600), "second": SimpleUploadedFile("b.txt", b"b" * 600)}
        with mock.patch.object(views, "MAX_UPLOAD_BYTES", 1_000):
            response = self.client.post("/admin/login/", form)
        assert (response.status_code, response.json()["code"]) == (413, "message_too_large")
