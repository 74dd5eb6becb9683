"""The WebSocket edge, through the real ASGI application; and a question that comes while too much is asked."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest
from django.contrib.sessions.models import Session
from django.test import AsyncClient

from agents.database import in_database
from agents.models import Deployment
from chat.access import rate_limits
from chat.api.asgi import ChatConsumer
from chat.errors import RateLimitedError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.runs.runner import runner
from chat.telemetry import SOCKETS
from tests.constants import override
from tests.factories import make_api_key, make_conversation, make_turn, make_user
from tests.integration.chat.turn.test_path import NEAR, model, scripted
from tests.readers import LibraryCase
from tests.scripted import ScriptedReply
from tests.sockets import Socket

KNOWN = "Quels sont les horaires d'ouverture de la bibliothèque ?"


class ConsumerTests(LibraryCase):
    async def open(self, conversation_id: uuid.UUID | str, client: AsyncClient) -> Socket:
        socket = Socket(f"/ws/chat/{conversation_id}/", client)
        await socket.open()
        return socket

    async def owner(self) -> tuple[AsyncClient, str]:
        client = AsyncClient()
        created = await client.post("/api/conversations/", {"deployment": self.deployment.slug}, "application/json")
        return client, created.json()["id"]

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[tuple[AsyncClient, str, Socket]]:
        """A visitor with a conversation and a socket to it."""
        client, conversation = await self.owner()
        socket = await self.open(conversation, client)
        yield client, conversation, socket
        await socket.close()

    @asynccontextmanager
    async def answering(
        self, *later: Any, rest: threading.Event | None = None
    ) -> AsyncIterator[tuple[AsyncClient, str, Socket]]:
        """The same, once the first text of an answer has come; what follows waits for `rest`."""
        reply = ScriptedReply(pieces=["Un début", " et la fin [1]."], rest=rest or threading.Event())
        with scripted(reply, *later):
            async with self.asking() as (client, conversation, socket):
                await socket.send(type="ask", message=NEAR, clientMessageId="a")
                await socket.begun()
                yield client, conversation, socket

    async def turn_ends(self) -> None:
        while await Turn.objects.filter(status=TurnStatus.RUNNING).aexists():  # noqa: ASYNC110  # another task writes the row
            await asyncio.sleep(0.05)

    async def test_refused_socket_is_counted_no_longer_than_it_lasts(self) -> None:
        open_before = SOCKETS._value.get()
        client, _ = await self.owner()
        socket = await self.open(uuid.uuid4(), client)
        await socket.send(type="ask", message=KNOWN, clientMessageId="a")
        assert await socket.receive_close() == 4404
        await socket.close()
        assert SOCKETS._value.get() == open_before

    async def test_turn_of_another_conversation_is_not_followed_here(self) -> None:
        async with self.asking() as (client, conversation, socket):
            created = await client.post("/api/conversations/", {"deployment": self.deployment.slug}, "application/json")
            turn = await in_database(make_turn, await Conversation.objects.aget(pk=created.json()["id"]))
            for frame in ("resume", "retry", "approve", "deny"):
                await socket.send(type=frame, turnId=str(turn.pk), toolCallId="a")
                assert (await socket.receive())["code"] == "turn_not_found"

    async def test_message_that_comes_again_is_followed_whatever_the_limit(self) -> None:
        async with self.asking() as (client, conversation, socket):
            await socket.send(type="ask", message=KNOWN, clientMessageId="a")
            await socket.until_end()
            with mock.patch("chat.api.asgi.limit_asking", side_effect=RateLimitedError("limit", retry_after=1)):
                await socket.send(type="ask", message=KNOWN, clientMessageId="a")
                assert (await socket.until_end())[-1]["type"] == "done"
                await socket.send(type="ask", message=KNOWN, clientMessageId="b")
                refused = await socket.receive()
            assert (refused["code"], refused["retryable"], refused["retryAfter"]) == ("rate_limited", True, 1)

    async def test_bad_frame_gets_an_error_and_the_socket_stays_open(self) -> None:
        async with self.asking() as (client, conversation, socket):
            for text in ("{", r'{"type": "ask", "message": "bonjour \ud800"}'):
                await socket.send_text(text)
                assert (await socket.receive())["code"] == "invalid_message"
            await socket.send_bytes('{"type": "stop"}'.encode("utf-16"))
            assert (await socket.receive())["code"] == "invalid_message"
            await socket.send(type="ask", message=KNOWN)
            assert (await socket.until_end())[-1]["type"] == "done"

    async def test_stop_reaches_a_running_turn_and_keeps_its_text(self) -> None:
        async with self.answering() as (client, conversation, socket):
            await socket.send(type="stop")
            last = (await socket.until_end())[-1]
            assert (last["status"], last["content"]) == ("interrupted", "Un début")
            stored = await Message.objects.aget(role=Role.ASSISTANT)
            assert stored.content == "Un début"

    async def test_reader_that_goes_away_while_it_is_told_is_no_error(self) -> None:
        async with self.asking() as (client, conversation, socket):
            gone = mock.patch.object(ChatConsumer, "send", side_effect=ConnectionResetError("gone"))
            with gone as send, self.assertNoLogs("chat.api.asgi", "WARNING"):
                await socket.send(type="ask", message=KNOWN, clientMessageId="a")
                while not send.called:  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)

    async def test_stop_and_retry_over_http(self) -> None:
        async with self.answering(["Tout [1]."]) as (client, conversation, socket):
            turn = await Turn.objects.aget()
            stopped = await client.post(f"/api/rag/turns/{turn.pk}/stop")
            await socket.until_end()
            again = await client.post(f"/api/rag/turns/{turn.pk}/stop")
            retried = await client.post(f"/api/rag/turns/{turn.pk}/retry")
            told = b"".join([piece async for piece in retried.streaming_content])  # type: ignore[attr-defined]
        assert (stopped.json(), again.json()) == ({"stopped": True}, {"stopped": False})
        assert b'"status": "done"' in told
        assert b"Tout [1]." in told

    async def test_open_socket_loses_its_rights_with_its_session_or_deployment(self) -> None:
        async with self.asking() as (client, conversation, socket):
            await in_database(Deployment.objects.update, is_active=False)
            await socket.send(type="ask", message=KNOWN, clientMessageId="a")
            assert (await socket.receive())["code"] == "conversation_not_found"
            await in_database(Deployment.objects.update, is_active=True)
            await in_database(Session.objects.all().delete)
            await socket.send(type="ask", message=KNOWN, clientMessageId="a")
            assert (await socket.receive())["code"] == "conversation_not_found"
            assert await in_database(Message.objects.count) == 0

    async def test_open_socket_stops_and_hears_nothing_after_a_logout(self) -> None:
        rest = threading.Event()
        async with self.answering(rest=rest) as (client, conversation, socket):
            await in_database(Session.objects.all().delete)
            await socket.send(type="stop")
            assert (await socket.receive())["code"] == "conversation_not_found"
            rest.set()
            assert await socket.receive_close() == 4404
            await self.turn_ends()
        answer = await Message.objects.aget(role=Role.ASSISTANT)
        assert answer.content == "Un début et la fin [1]."

    async def test_stream_over_http_ends_with_its_session(self) -> None:
        client, user, rest = AsyncClient(), await in_database(make_user), threading.Event()
        await client.aforce_login(user)
        conversation = await in_database(make_conversation, self.deployment, user=user)
        question = {"message": NEAR, "conversationId": str(conversation.pk), "clientMessageId": "a"}
        with scripted(ScriptedReply(pieces=["Un début", " et la fin [1]."], rest=rest)):
            asked = await client.post("/api/rag/chat", question, "application/json")
            told = b""
            async for piece in asked.streaming_content:  # type: ignore[attr-defined]
                told += piece
                if "Un début".encode() in piece:
                    await client.post("/logout/")
                    rest.set()
            await self.turn_ends()
        assert b'"code": "turn_not_found"' in told
        assert b"et la fin" not in told

    async def test_deleting_a_conversation_stops_its_running_turn(self) -> None:
        with self.settings(RIGHTS_CHECK_SECONDS=60.0):
            async with self.answering() as (client, conversation, socket):
                deleted = await client.delete(f"/api/conversations/{conversation}/")
                last = (await socket.until_end())[-1]
        assert (deleted.status_code, last["status"]) == (204, "interrupted")
        assert await in_database(Message.objects.count) == 0

    async def test_question_asked_again_replaces_its_turn_once_and_forgets_the_first_answer(self) -> None:
        async with self.asking() as (client, conversation, socket):
            with scripted("Première [1].", "Seconde [1]."):
                await socket.send(type="ask", message=NEAR, clientMessageId="a")
                first = (await socket.until_end())[0]["turnId"]
                for _ in range(2):
                    await socket.send(type="ask", message=NEAR, clientMessageId="b", replaces=first)
                    frames = await socket.until_end()
                prompts = [call.messages for call in model().calls]
                model().assert_exhausted()
            assert frames[-1]["content"] == "Seconde [1]."
            assert "Première [1]." not in "".join(message.content for message in prompts[1])
            thread = await client.get(f"/api/conversations/{conversation}/messages/")
            shown = thread.json()["messages"]
            assert [message["content"] for message in shown] == [NEAR, "Seconde [1]."]
            assert shown[0]["versions"]["position"] == 2


@pytest.fixture
def _overload() -> Iterator[None]:
    """No place is free, nor will be soon."""
    with mock.patch.object(runner, "_places", asyncio.Semaphore(0)), override(OVERLOAD_WAIT_SECONDS=0.01):
        yield


@pytest.mark.usefixtures("_overload")
class OverloadTests(LibraryCase):
    secret: str

    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        cls.secret = make_api_key(cls.deployment)

    async def completions(self, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.secret}"}
        return await AsyncClient().post("/v1/chat/completions", body, "application/json", headers=headers)

    async def test_refused_question_says_when_to_retry_and_neither_counts_nor_leaves_anything(self) -> None:
        taken = []
        with (
            override(RATE_LIMITS=True),
            mock.patch.object(rate_limits, "_take", side_effect=lambda *limits: taken.extend(limits)),
        ):
            body = {"message": KNOWN, "deployment": self.deployment.slug}
            asked: Any = await AsyncClient().post("/api/rag/chat", body, "application/json")
            said = await self.completions(model=self.deployment.slug, messages=[{"role": "user", "content": KNOWN}])
        assert (asked.json()["code"], said.json()["error"]["code"]) == ("overloaded", "overloaded")
        assert [(each.status_code, each["Retry-After"]) for each in (asked, said)] == [(503, "2")] * 2
        assert not taken
        assert not await Turn.objects.aexists()
        assert not await Conversation.objects.aexists()

    async def test_place_is_given_back_where_nothing_is_asked(self) -> None:
        runner._places.release()
        for body in ({"model": self.deployment.slug, "messages": "none"}, {"model": "nobody", "messages": []}):
            assert (await self.completions(**body)).status_code in (400, 404)
            assert runner._places._value == 1

    async def test_socket_takes_it_when_it_comes_again(self) -> None:
        client, opening = AsyncClient(), {"deployment": self.deployment.slug}
        created = await client.post("/api/conversations/", opening, "application/json")
        socket = Socket(f"/ws/chat/{created.json()['id']}/", client)
        await socket.open()
        await socket.send(type="ask", message=KNOWN, clientMessageId="a")
        [told] = await socket.until_end()
        assert (told["code"], told["retryable"]) == ("overloaded", True)
        assert told["retryAfter"] > 0
        runner._places.release()
        await socket.send(type="ask", message=KNOWN, clientMessageId="a")
        assert (await socket.until_end())[-1]["type"] == "done"
        await socket.close()
