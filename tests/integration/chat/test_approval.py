"""A tool that asks for a person's approval: the turn pauses, the person decides in the page, the turn goes on."""

import asyncio
import uuid
from typing import Any

from django.conf import settings
from django.test import AsyncClient, TestCase

from agents.bridges import in_database
from agents.models import Deployment
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.permissions import visitor_of
from tests.factories import make_conversation, make_library
from tests.integration.chat.test_turn import model, scripted
from tests.sockets import Socket
from tests.tools import asking, call, declared

QUESTION = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"
ran: list[str] = []


def book(room: str) -> dict[str, object]:
    """Book a room.

    Args:
        room: Its name.
    """
    ran.append(room)
    return {"booked": room}


class ApprovalTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()

    def setUp(self) -> None:
        ran.clear()

    async def conversation(self, client: AsyncClient) -> Conversation:
        """A conversation of this client's own visitor."""

        def make() -> Conversation:
            session = client.session
            visitor = visitor_of(session)
            session.save()
            client.cookies[settings.SESSION_COOKIE_NAME] = str(session.session_key)
            return make_conversation(self.deployment, visitor=visitor)

        return await in_database(make)

    async def paused(
        self, client: AsyncClient, *calls: Any
    ) -> tuple[Socket, Conversation, list[dict[str, Any]]]:
        conversation = await self.conversation(client)
        socket = Socket(f"/ws/chat/{conversation.pk}/", client)
        await socket.open()
        await socket.send(type="ask", message=QUESTION, clientMessageId=str(uuid.uuid4()))
        return socket, conversation, await socket.until_end()

    async def test_turn_pauses_before_the_tool_and_goes_on_once_it_is_approved(self) -> None:
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2")), ["C’est fait."]),
        ):
            socket, _conversation, frames = await self.paused(AsyncClient())
            asked = next(frame for frame in frames if frame["type"] == "tool")
            assert (asked["status"], asked["arguments"]) == ("awaiting", '{"room": "B2"}')
            assert frames[-1]["status"] == "awaiting_approval"
            turn = await Turn.objects.aget()
            assert (turn.status, turn.finished_at, ran) == ("awaiting_approval", None, [])
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="a")
            again = await socket.until_end()
            assert [f["status"] for f in again if f["type"] == "tool"] == ["running", "done"]
            assert (again[-1]["status"], again[-1]["content"]) == ("done", "C’est fait.")
            model().assert_exhausted()
            await socket.close()
        assert ran == ["B2"]
        await turn.arefresh_from_db()
        assert (turn.status, turn.rounds, turn.llm_calls) == (TurnStatus.DONE, 1, 2)
        steps = [line["step"] for line in turn.trace]
        assert (steps.count("receive"), steps.count("tool_loop")) == (2, 2)

    async def test_a_refused_tool_is_not_run_and_the_model_reads_that_it_was_refused(self) -> None:
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2")), ["Bien."]),
        ):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            turn = await Turn.objects.aget()
            await socket.send(type="deny", turnId=str(turn.pk), toolCallId="a")
            again = await socket.until_end()
            assert [f["status"] for f in again if f["type"] == "tool"] == ["denied"]
            assert "refused" in model().calls[1].messages[-1].content
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="a")
            assert (await socket.receive())["code"] == "approval_over"
            await socket.close()
        assert ran == []

    async def test_every_call_is_decided_before_the_turn_goes_on(self) -> None:
        calls = (call("book", id="a", room="A"), call("book", id="b", room="B"))
        with declared(book, needs_approval=True), scripted(asking(*calls), ["Bien."]):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            turn = await Turn.objects.aget()
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="b")
            await asyncio.sleep(0.2)
            assert socket.output_queue.empty()
            await socket.send(type="deny", turnId=str(turn.pk), toolCallId="a")
            await socket.until_end()
            await socket.close()
        assert ran == ["B"]
        stored = [m async for m in Message.objects.filter(role=Role.TOOL).order_by("id")]
        assert [(m.tool_call_id, m.success) for m in stored] == [("a", False), ("b", True)]

    async def test_asking_something_else_refuses_the_tool_and_leaves_a_valid_thread(self) -> None:
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2")), ["Autre chose."]),
        ):
            socket, conversation, _frames = await self.paused(AsyncClient())
            await socket.send(type="ask", message=QUESTION, clientMessageId="next")
            assert (await socket.until_end())[-1]["content"] == "Autre chose."
            roles = [m.role for m in model().calls[1].messages]
            await socket.close()
        assert roles == ["system", "user", "assistant", "tool", "user"]
        assert ran == []
        statuses = [t.status async for t in Turn.objects.filter(conversation=conversation)]
        assert statuses == [TurnStatus.INTERRUPTED, TurnStatus.DONE]

    async def test_a_page_that_comes_back_finds_the_request_for_approval(self) -> None:
        client = AsyncClient()
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2"))),
        ):
            socket, conversation, _frames = await self.paused(client)
            await socket.close()
            shown = await client.get(f"/api/conversations/{conversation.pk}/messages/")
            turn = await Turn.objects.aget()
            assert shown.json()["runningTurn"] == {"id": str(turn.pk)}
            from chat.runner import runner

            runner._logs._held.clear()  # another process, or this one much later
            back = Socket(f"/ws/chat/{conversation.pk}/", client)
            await back.open()
            await back.send(type="resume", turnId=str(turn.pk), lastEventId=0)
            frames = await back.until_end()
            await back.close()
        assert [f["type"] for f in frames] == ["meta", "tool", "done"]
        assert (frames[1]["toolCallId"], frames[2]["status"]) == ("a", "awaiting_approval")

    async def test_nobody_decides_for_somebody_else(self) -> None:
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2"))),
        ):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            turn = await Turn.objects.aget()
            stranger = AsyncClient()
            theirs = await self.conversation(stranger)
            other = Socket(f"/ws/chat/{theirs.pk}/", stranger)
            await other.open()
            await other.send(type="approve", turnId=str(turn.pk), toolCallId="a")
            assert (await other.receive())["code"] == "turn_not_found"
            await other.close()
            await socket.close()
        assert ran == []
