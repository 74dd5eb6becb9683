"""A tool that asks for a person's approval: the turn pauses, the person decides in the page, the turn goes on."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.test import AsyncClient, override_settings

from agents.database import in_database
from agents.models import Agent, Deployment
from chat.access.visitors import visitor_of
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.runs.runner import runner
from tests.factories import make_conversation, set_settings
from tests.integration.chat.api.test_conversations import streamed
from tests.integration.chat.turn.test_path import model, scripted
from tests.readers import LibraryCase
from tests.sockets import Socket
from tests.tools import asking, call, declared
from tools_registry.index import sync_index
from tools_registry.models import ToolOverride, ToolUsage

QUESTION = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"
ran: list[str] = []


def book(room: str) -> dict[str, object]:
    """Book a room.

    Args:
        room: Its name.
    """
    ran.append(room)
    return {"booked": room}


class ApprovalCase(LibraryCase):
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

    async def paused(self, client: AsyncClient, *calls: Any) -> tuple[Socket, Conversation, list[dict[str, Any]]]:
        conversation = await self.conversation(client)
        socket = Socket(f"/ws/chat/{conversation.pk}/", client)
        await socket.open()
        await socket.send(type="ask", message=QUESTION, clientMessageId=str(uuid.uuid4()))
        return socket, conversation, await socket.until_end()


class ApprovalTests(ApprovalCase):
    async def test_turn_pauses_before_the_tool_and_goes_on_once_it_is_approved(self) -> None:
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2")), ["C’est fait."]):
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

    async def test_conversation_gets_its_title_when_its_first_turn_paused(self) -> None:
        await in_database(
            Deployment.objects.filter(pk=self.deployment.pk).update, config_overlay={"generate_titles": True}
        )
        with (
            declared(book, needs_approval=True),
            scripted(asking(call("book", id="a", room="B2")), ["C’est fait."], ["Salles"]),
        ):
            socket, conversation, _frames = await self.paused(AsyncClient())
            turn = await Turn.objects.aget()
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="a")
            await socket.until_end()
            await asyncio.gather(*runner._settling)
            model().assert_exhausted()
            await socket.close()
        await conversation.arefresh_from_db()
        assert conversation.title == "Salles"

    async def test_a_refused_tool_is_not_run_and_the_model_reads_that_it_was_refused(self) -> None:
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2")), ["Bien."]):
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
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2")), ["Autre chose."]):
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
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2"))):
            socket, conversation, _frames = await self.paused(client)
            await socket.close()
            shown = await client.get(f"/api/conversations/{conversation.pk}/messages/")
            turn = await Turn.objects.aget()
            assert shown.json()["runningTurn"] == {"id": str(turn.pk)}

            runner._logs._held.clear()  # another process, or this one much later
            back = Socket(f"/ws/chat/{conversation.pk}/", client)
            await back.open()
            await back.send(type="resume", turnId=str(turn.pk), lastEventId=0)
            frames = await back.until_end()
            await back.close()
        assert [f["type"] for f in frames] == ["meta", "tool", "done"]
        assert (frames[1]["toolCallId"], frames[2]["status"]) == ("a", "awaiting_approval")

    async def resumed(self, *replies: Any, before: Any) -> tuple[list[dict[str, Any]], Turn]:
        """A turn that is approved after `before` has changed something; its last frames and its row."""
        with (
            declared(book, needs_approval=True, is_personal=True),
            scripted(asking(call("book", id="a", room="B2")), *replies),
        ):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            await in_database(before)
            turn = await Turn.objects.aget()
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="a")
            frames = await socket.until_end()
            await socket.close()
            model().assert_exhausted()
        await turn.arefresh_from_db()
        return frames, turn

    async def assert_closed(self) -> None:
        """The round stands in the thread before the answer, its call neither run nor left open."""
        stored = [m async for m in Message.objects.order_by("id")]
        assert [m.role for m in stored] == ["user", "assistant", "tool", "assistant"]
        assert (stored[2].tool_call_id, stored[2].success, ran) == ("a", False, [])

    def switch_tools_off(self) -> None:
        set_settings(Agent.objects.filter(pk=self.deployment.agent_id), tools_enabled=False)

    async def test_turn_whose_tools_were_switched_off_tells_the_model_and_answers(self) -> None:
        frames, turn = await self.resumed(["Je ne peux pas."], before=self.switch_tools_off)
        await self.assert_closed()
        assert [f["status"] for f in frames if f["type"] == "tool"] == ["running", "failed"]
        assert (frames[-1]["status"], frames[-1]["content"]) == ("done", "Je ne peux pas.")
        assert (turn.status, turn.rounds, turn.llm_calls) == (TurnStatus.DONE, 1, 2)

    async def test_turn_whose_tool_is_gone_tells_the_model_and_answers(self) -> None:
        def switch_off() -> None:
            ToolOverride.objects.create(tool_name="book", is_active=False)

        _frames, turn = await self.resumed(["Je ne peux pas."], before=switch_off)
        await self.assert_closed()
        assert (turn.status, turn.rounds) == (TurnStatus.DONE, 1)

    async def test_turn_that_went_past_the_guard_rail_is_not_refused_when_it_goes_on(self) -> None:
        def forget_the_documents() -> None:
            set_settings(Agent.objects.filter(pk=self.deployment.agent_id), guard_rail_threshold=1.0)

        frames, turn = await self.resumed(["C’est fait."], before=forget_the_documents)
        assert (frames[-1]["content"], ran) == ("C’est fait.", ["B2"])
        assert turn.is_personal

    async def test_turn_whose_model_is_gone_closes_its_round_before_it_quotes(self) -> None:
        with declared(book, needs_approval=True, is_personal=True), scripted(asking(call("book", id="a", room="B2"))):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            turn = await Turn.objects.aget()
            with override_settings(LLMS={}):
                await socket.send(type="approve", turnId=str(turn.pk), toolCallId="a")
                assert (await socket.until_end())[-1]["answerSource"] == "extractive"
            await socket.close()
        await self.assert_closed()

    async def test_tools_of_a_turn_that_pauses_count_as_chosen(self) -> None:
        await in_database(
            lambda: set_settings(
                Agent.objects.filter(pk=self.deployment.agent_id), tool_mode="local", tool_threshold=-1.0
            )
        )
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2"))):
            await in_database(sync_index)
            socket, _conversation, _frames = await self.paused(AsyncClient())
            await socket.close()
            await asyncio.gather(*runner._settling)
        assert (await ToolUsage.objects.aget(tool_name="book")).selected == 1

    async def test_nobody_decides_for_somebody_else(self) -> None:
        with declared(book, needs_approval=True), scripted(asking(call("book", id="a", room="B2"))):
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


class HttpApprovalTests(ApprovalCase):
    """The same door for clients without a socket."""

    def url(self, turn: Turn) -> str:
        return f"/api/rag/turns/{turn.pk}/approvals"

    async def decide(self, client: AsyncClient, turn: Turn, **body: Any) -> Any:
        return await client.post(self.url(turn), body, content_type="application/json")

    async def ended(self, client: AsyncClient, turn: Turn) -> str:
        """The events of the turn, followed to their end."""
        return await streamed(await client.get(f"/api/rag/turns/{turn.pk}/events"))

    @contextmanager
    def story(self, *replies: Any) -> Iterator[None]:
        with declared(book, needs_approval=True), scripted(*replies):
            yield
            model().assert_exhausted()

    async def test_waiting_call_is_listed_with_its_arguments_and_approved(self) -> None:
        client = AsyncClient()
        with self.story(asking(call("book", id="a", room="B2")), ["C’est fait."]):
            socket, _conversation, _frames = await self.paused(client)
            await socket.close()
            turn = await Turn.objects.aget()
            listed = (await client.get(self.url(turn))).json()
            assert listed == {
                "turnId": str(turn.pk),
                "status": "awaiting_approval",
                "approvals": [
                    {"toolCallId": "a", "toolName": "book", "arguments": '{"room": "B2"}', "approval": "pending"}
                ],
            }
            response = await self.decide(client, turn, toolCallId="a", approved=True)
            assert response.status_code == 200, response.content
            assert response.json()["approvals"][0]["approval"] == "approved"
            assert "C’est fait." in await self.ended(client, turn)
        assert ran == ["B2"]

    async def test_same_decision_again_changes_nothing_and_another_is_refused(self) -> None:
        client = AsyncClient()
        calls = (call("book", id="a", room="A"), call("book", id="b", room="B"))
        with self.story(asking(*calls), ["Bien."]):
            socket, _conversation, _frames = await self.paused(client)
            await socket.close()
            turn = await Turn.objects.aget()
            for _ in range(2):
                first = await self.decide(client, turn, toolCallId="a", approved=False)
                assert first.status_code == 200
                assert first.json()["status"] == "awaiting_approval"
            other = await self.decide(client, turn, toolCallId="a", approved=True)
            assert (other.status_code, other.json()["code"]) == (409, "approval_over")
            await self.decide(client, turn, toolCallId="b", approved=True)
            await self.ended(client, turn)
            again = await self.decide(client, turn, toolCallId="b", approved=True)
            assert (again.status_code, again.json()["status"]) == (200, "done")
        assert ran == ["B"]

    async def test_a_call_that_asks_for_nothing_is_not_decided(self) -> None:
        client = AsyncClient()
        with self.story(asking(call("book", id="a", room="A"))):
            socket, _conversation, _frames = await self.paused(client)
            await socket.close()
            turn = await Turn.objects.aget()
            unknown = await self.decide(client, turn, toolCallId="z", approved=True)
            wrong = await self.decide(client, turn, toolCallId="a", approved="perhaps", more=1)
        assert (unknown.status_code, wrong.status_code) == (409, 400)
        assert set(wrong.json()) == {"more"}

    async def test_nobody_reads_or_decides_for_somebody_else(self) -> None:
        with self.story(asking(call("book", id="a", room="A"))):
            socket, _conversation, _frames = await self.paused(AsyncClient())
            await socket.close()
            turn = await Turn.objects.aget()
            stranger = AsyncClient()
            assert (await stranger.get(self.url(turn))).status_code == 404
            refused = await self.decide(stranger, turn, toolCallId="a", approved=True)
        assert (refused.status_code, refused.json()["code"]) == (404, "turn_not_found")
        assert ran == []

    async def test_page_of_another_site_decides_nothing_for_a_visitor(self) -> None:
        client = AsyncClient(enforce_csrf_checks=True)
        with self.story(asking(call("book", id="a", room="A"))):
            socket, _conversation, _frames = await self.paused(client)
            await socket.close()
            turn = await Turn.objects.aget()
            refused = await self.decide(client, turn, toolCallId="a", approved=True)
        assert refused.status_code == 403
        assert ran == []
