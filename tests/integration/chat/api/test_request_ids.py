"""One id goes along with a request: into the log, back to the client, to model servers; and what a line of the log
says.
"""

import asyncio
import logging
import re
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.test import TestCase

from agents.llm.base import GenerationOptions, PromptMessage
from agents.llm.openai import OpenAILanguageModel
from agents.logs import TextFormatter, accepted_id, current_request, working_for
from chat.api.asgi import with_request_id
from tests.factories import make_user
from tests.servers.model_server import ModelReply, ModelServer

#: As in `docs/operations.md`, with the pattern that fail2ban puts for `<HOST>`.
FILTER = r"^.* WARNING chat\.access\.sign_in sign-in failed address=(?P<host>\S+) outcome=\w+"


async def answered(header: bytes | None) -> tuple[str, str]:
    """The id that the application sees, and the one that the client is sent."""

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": current_request().encode()})

    headers = [] if header is None else [(b"x-request-id", header)]
    scope: Any = {"type": "http", "headers": headers}
    wrapped: Any = with_request_id(application)
    communicator: Any = ApplicationCommunicator(wrapped, scope)  # type: ignore[no-untyped-call]  # asgiref's
    start = await communicator.receive_output()
    body = await communicator.receive_output()
    return body["body"].decode(), dict(start["headers"])[b"x-request-id"].decode()


class RequestIdTests(TestCase):
    async def test_a_safe_id_of_a_proxy_is_taken_over_and_sent_back(self) -> None:
        assert await answered(b"proxy-0123456789") == ("proxy-0123456789", "proxy-0123456789")

    async def test_anything_else_is_replaced(self) -> None:
        hostile = (None, b"", b"short", b"x" * 65, b"a b c d e f g h", b"evil\r\nX: 1234", b"\xe9" * 9)
        for header in hostile:
            seen, sent = await answered(header)
            assert seen == sent
            assert re.fullmatch(r"[0-9a-f]{32}", seen), header

    def test_the_id_ends_with_the_work(self) -> None:
        with working_for("request-1"):
            assert current_request() == "request-1"
        assert current_request() == ""
        assert accepted_id("") != accepted_id("")

    async def test_model_servers_are_told_streamed_or_whole(self) -> None:
        messages, options = [PromptMessage(role="user", content="x")], GenerationOptions()
        with ModelServer() as server:
            model = OpenAILanguageModel(base_url=server.base_url, model="m", max_retries=0)
            server.script(ModelReply(tokens=["a"]), ModelReply(tokens=["a"]))
            with working_for("request-whole"):
                await asyncio.to_thread(model.complete, messages, options)
            with working_for("request-stream"):
                async for _chunk in model.stream(messages, options):
                    pass
            await model.aclose()
            assert [each.headers["x-request-id"] for each in server.calls] == ["request-whole", "request-stream"]


class LineTests(TestCase):
    def test_a_line_names_its_request(self) -> None:
        record = logging.LogRecord("a.b", logging.INFO, "f", 1, "two\n%s", ("lines",), None)
        with working_for("request-1"):
            assert TextFormatter().format(record).endswith("INFO a.b two\nlines request_id=request-1")

    def test_a_failed_sign_in_is_one_line_that_the_documented_filter_reads(self) -> None:
        user = make_user(username="marie", password="secret-of-marie")
        with self.assertLogs("chat.access.sign_in", "WARNING") as found:
            self.client.post("/login/", {"username": "marie", "password": "hunter2"})
        (record,) = found.records
        line = TextFormatter().format(record)
        match = re.match(FILTER, line)
        assert match is not None
        assert match["host"] == "127.0.0.1"
        assert not any(word in line for word in ("marie", "hunter2", str(user.pk) + "@"))
        with self.assertNoLogs("chat.access.sign_in", "WARNING"):
            self.client.post("/login/", {"username": "marie", "password": "secret-of-marie"})
