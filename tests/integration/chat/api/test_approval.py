"""A tool that asks for a person's approval: the turn pauses, the person decides in the page, the turn goes on."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.test import AsyncClient, override_settings

from agents.database import in_database
from agents.models import Agent
from chat.access.permissions import visitor_of
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.runs.runner import runner
from tests.factories import make_conversation, set_settings
from tests.integration.chat.api.test_conversations import streamed
from tests.integration.chat.turn.test_path import model, scripted
from tests.readers import LibraryCase
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


BOOKING = (call("book", id="a", room="B2"),)
TWO = (call("book", id="a", room="A"), call("book", id="b", room="B"))


class ApprovalCase(LibraryCase):
    def setUp(self) -> None:
        ran.clear()
        self.client: Any = AsyncClient()

    async def conversation(self, client: AsyncClient) -> Conversation:
        """A conversation of this client's own visitor."""

        def make() -> Conversation:
            session = client.session
            visitor = visitor_of(session)
            session.save()
            client.cookies[settings.SESSION_COOKIE_NAME] = str(session.session_key)
            return make_conversation(self.deployment, visitor=visitor)

        return await in_database(make)

    @asynccontextmanager
    async def paused(self, *replies: Any, calls: Any = BOOKING, **options: Any) -> AsyncIterator[tuple[Socket, Turn]]:
        """A turn that waits for a decision on these calls; every reply after it is used."""
        with declared(book, needs_approval=True, **options), scripted(asking(*calls), *replies):
            scripts = model()
            conversation = await self.conversation(self.client)
            socket = Socket(f"/ws/chat/{conversation.pk}/", self.client)
            await socket.open()
            await socket.send(type="ask", message=QUESTION, clientMessageId=str(uuid.uuid4()))
            self.frames = await socket.until_end()
            turn = await Turn.objects.aget()
            yield socket, turn
            await socket.close()
            scripts.assert_exhausted()
        await turn.arefresh_from_db()

    async def decided(self, socket: Socket, turn: Turn, decision: str = "approve") -> list[dict[str, Any]]:
        await socket.send(type=decision, turnId=str(turn.pk), toolCallId="a")
        return await socket.until_end()

    def knobs(self, **values: Any) -> None:
        set_settings(Agent.objects.filter(pk=self.deployment.agent_id), **values)


class ApprovalTests(ApprovalCase):
    async def test_turn_pauses_before_the_tool_and_goes_on_once_it_is_approved(self) -> None:
        async with self.paused(["C’est fait."]) as (socket, turn):
            asked = next(frame for frame in self.frames if frame["type"] == "tool")
            assert (asked["status"], asked["arguments"]) == ("awaiting", '{"room": "B2"}')
            assert self.frames[-1]["status"] == "awaiting_approval"
            assert (turn.status, turn.finished_at, ran) == ("awaiting_approval", None, [])
            again = await self.decided(socket, turn)
            assert [f["status"] for f in again if f["type"] == "tool"] == ["running", "done"]
            assert (again[-1]["status"], again[-1]["content"]) == ("done", "C’est fait.")
        assert ran == ["B2"]
        assert (turn.status, turn.rounds, turn.llm_calls) == (TurnStatus.DONE, 1, 2)
        steps = [line["step"] for line in turn.trace]
        assert (steps.count("receive"), steps.count("tool_loop")) == (2, 2)

    async def test_a_refused_tool_is_not_run_and_the_model_reads_that_it_was_refused(self) -> None:
        async with self.paused(["Bien."]) as (socket, turn):
            again = await self.decided(socket, turn, "deny")
            assert [f["status"] for f in again if f["type"] == "tool"] == ["denied"]
            assert "refused" in model().calls[1].messages[-1].content
            [over] = await self.decided(socket, turn)
            assert over["code"] == "approval_over"
        assert ran == []

    async def test_every_call_is_decided_before_the_turn_goes_on(self) -> None:
        async with self.paused(["Bien."], calls=TWO) as (socket, turn):
            await socket.send(type="approve", turnId=str(turn.pk), toolCallId="b")
            await asyncio.sleep(0.2)
            assert socket.output_queue.empty()
            await self.decided(socket, turn, "deny")
        assert ran == ["B"]
        stored = [m async for m in Message.objects.filter(role=Role.TOOL).order_by("id")]
        assert [(m.tool_call_id, m.success) for m in stored] == [("a", False), ("b", True)]

    async def test_asking_something_else_refuses_the_tool_and_leaves_a_valid_thread(self) -> None:
        async with self.paused(["Autre chose [1]."]) as (socket, turn):
            await socket.send(type="ask", message=QUESTION, clientMessageId="next")
            assert (await socket.until_end())[-1]["content"] == "Autre chose [1]."
            roles = [m.role for m in model().calls[1].messages]
        assert roles == ["system", "user", "assistant", "tool", "user"]
        assert ran == []
        statuses = [t.status async for t in Turn.objects.filter(conversation=turn.conversation_id)]
        assert statuses == [TurnStatus.INTERRUPTED, TurnStatus.DONE]

    async def test_a_page_that_comes_back_finds_the_request_for_approval(self) -> None:
        async with self.paused() as (_socket, turn):
            shown = await self.client.get(f"/api/conversations/{turn.conversation_id}/messages/")
            assert shown.json()["runningTurn"] == {"id": str(turn.pk)}
            runner._logs._held.clear()  # another process, or this one much later
            back = Socket(f"/ws/chat/{turn.conversation_id}/", self.client)
            await back.open()
            await back.send(type="resume", turnId=str(turn.pk), lastEventId=0)
            frames = await back.until_end()
            await back.close()
        assert [f["type"] for f in frames] == ["meta", "tool", "done"]
        assert (frames[1]["toolCallId"], frames[2]["status"]) == ("a", "awaiting_approval")

    async def resumed(self, *replies: Any, before: Any) -> tuple[list[dict[str, Any]], Turn]:
        """A turn that is approved after `before` has changed something; its last frames and its row."""
        async with self.paused(*replies, is_personal=True) as (socket, turn):
            await in_database(before)
            frames = await self.decided(socket, turn)
        return frames, turn

    async def assert_closed(self) -> None:
        """The round stands in the thread before the answer, its call neither run nor left open."""
        stored = [m async for m in Message.objects.order_by("id")]
        assert [m.role for m in stored] == ["user", "assistant", "tool", "assistant"]
        assert (stored[2].tool_call_id, stored[2].success, ran) == ("a", False, [])

    async def test_turn_whose_tools_were_switched_off_tells_the_model_and_answers(self) -> None:
        frames, turn = await self.resumed(["Je ne peux pas."], before=lambda: self.knobs(tools_enabled=False))
        await self.assert_closed()
        assert [f["status"] for f in frames if f["type"] == "tool"] == ["running", "failed"]
        assert (frames[-1]["status"], frames[-1]["content"]) == ("done", "Je ne peux pas.")
        assert (turn.status, turn.rounds, turn.llm_calls) == (TurnStatus.DONE, 1, 2)

    async def test_turn_that_went_past_the_guard_rail_is_not_refused_when_it_goes_on(self) -> None:
        forgotten = partial(self.knobs, guard_rail_threshold=1.0)
        frames, turn = await self.resumed(["C’est fait."], before=forgotten)
        assert (frames[-1]["content"], ran) == ("C’est fait.", ["B2"])
        assert turn.is_personal

    async def test_turn_whose_model_is_gone_closes_its_round_before_it_quotes(self) -> None:
        async with self.paused(is_personal=True) as (socket, turn):
            with override_settings(LLMS={}):
                assert (await self.decided(socket, turn))[-1]["answerSource"] == "extractive"
        await self.assert_closed()


class HttpApprovalTests(ApprovalCase):
    """The same door for clients without a socket."""

    def url(self, turn: Turn) -> str:
        return f"/api/rag/turns/{turn.pk}/approvals"

    async def decide(self, turn: Turn, call_id: Any, approved: Any) -> Any:
        body = {"toolCallId": call_id, "approved": approved}
        return await self.client.post(self.url(turn), body, content_type="application/json")

    async def ended(self, turn: Turn) -> str:
        """The events of the turn, followed to their end."""
        return await streamed(await self.client.get(f"/api/rag/turns/{turn.pk}/events"))

    async def test_same_decision_again_changes_nothing_and_another_is_refused(self) -> None:
        async with self.paused(["Bien."], calls=TWO) as (_socket, turn):
            for _ in range(2):
                first = await self.decide(turn, "a", False)
                assert (first.status_code, first.json()["status"]) == (200, "awaiting_approval")
            other = await self.decide(turn, "a", True)
            assert (other.status_code, other.json()["code"]) == (409, "approval_over")
            await self.decide(turn, "b", True)
            await self.ended(turn)
            again = await self.decide(turn, "b", True)
            assert (again.status_code, again.json()["status"]) == (200, "done")
        assert ran == ["B"]

    async def test_a_late_decision_is_compared_with_the_last_round_that_has_the_call(self) -> None:
        async with self.paused(asking(*BOOKING), ["Bien."]) as (_socket, turn):
            for approved in (False, True):
                await self.decide(turn, "a", approved)
                await self.ended(turn)
            late = await self.decide(turn, "a", False)
        assert (late.status_code, ran) == (409, ["B2"])

    async def test_a_call_that_asks_for_nothing_is_not_decided(self) -> None:
        async with self.paused() as (_socket, turn):
            unknown = await self.decide(turn, "z", True)
            wrong = await self.decide(turn, "a", "perhaps")
            nameless = [await self.decide(turn, call_id, True) for call_id in (None, 1)]
        assert (unknown.status_code, wrong.status_code) == (409, 422)
        assert [(each.status_code, each.json()["code"]) for each in nameless] == [(422, "invalid_message")] * 2
