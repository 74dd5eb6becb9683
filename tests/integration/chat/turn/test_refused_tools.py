"""Tools that the model refuses cost a question nothing but themselves, and no more are offered than it takes."""

from typing import Any

from asgiref.sync import sync_to_async

from agents.database import in_database
from chat.models import StopReason, TurnStatus
from chat.turn.tool_loop import REFUSED
from tests.factories import declared_tools, make_tool, set_settings
from tests.integration.chat.turn.test_tool_loop import LoopTestCase, closed, served, weather
from tests.servers.model_server import ModelReply, ModelServer
from tests.tools import declared
from tools_registry.index import sync_index
from tools_registry.models import ToolUsage
from tools_registry.tool import ToolSpec

ANSWER = ModelReply(tokens=["À l’accueil."])


def bad_tool(name: str) -> ToolSpec:
    """As code may declare one; what sources bring was made fit."""
    return make_tool(name, parameters={"type": "object", "properties": {"n": {"type": "array"}}})


def offered(call: Any) -> set[str]:
    return {tool["function"]["name"] for tool in call.body.get("tools", [])}


class RefusedToolsTests(LoopTestCase):
    def setUp(self) -> None:
        super().setUp()
        REFUSED.clear()

    async def test_tools_that_a_refusal_names_are_left_out_then_and_afterwards(self) -> None:
        with (
            ModelServer(api_key="k") as server,
            declared(weather),
            declared_tools(bad_tool("bad_one"), bad_tool("bad_two")),
            served(server),
        ):
            server.script(ANSWER, ANSWER)
            result, _listener = await self.ask()
            again, _listener = await self.ask()
            await closed()
            calls = list(server.calls)
        assert [call.status for call in calls] == [400, 400, 200, 200]
        assert [len(offered(call)) for call in calls] == [3, 2, 1, 1]
        assert result.answer.text == again.answer.text == "À l’accueil."
        assert result.answer.stop_reason == StopReason.ANSWERED
        told = [line["detail"] for line in result.trace.lines if line["outcome"] == "refused"]
        assert [line.split(":")[0] for line in told] == ["bad_one", "bad_two"]
        usage = await ToolUsage.objects.aget(tool_name="bad_one")
        assert usage.last_error_code == "refused_by_model"
        assert "invalid_function_parameters" in usage.last_error

    async def test_refusal_that_names_none_is_answered_without_any(self) -> None:
        refusal = ModelReply(status=400, error_message="Something about it is wrong.")
        with ModelServer(api_key="k") as server, declared(weather), served(server):
            server.script(refusal, ANSWER)
            result, _listener = await self.ask()
            await closed()
            assert [offered(call) for call in server.calls] == [{"weather"}, set()]
        assert (result.status, result.answer.text) == (TurnStatus.DONE, "À l’accueil.")

    async def test_answer_that_fails_without_tools_too_has_failed(self) -> None:
        refusal = ModelReply(status=400, error_message="The prompt is too long.")
        with ModelServer(api_key="k") as server, declared(weather), served(server):
            server.script(refusal, refusal)
            result, _listener = await self.ask()
            await closed()
            assert len(server.calls) == 2
        assert result.status is TurnStatus.FAILED

    async def test_direct_gives_way_to_selection_above_what_the_model_takes(self) -> None:
        tools = [make_tool(f"tool_{n}", f"Does thing{n}.") for n in range(140)]
        room = make_tool("book_room", "Réserver une salle de travail de la bibliothèque.")
        with ModelServer(api_key="k") as server, declared(), served(server):
            with declared_tools(*tools[:128]):
                server.script(ANSWER)
                await self.ask()
            with declared_tools(*tools, room):
                await self.indexed()
                server.script(ANSWER)
                result, _listener = await self.ask()
            await closed()
            whole, chosen = map(offered, server.calls)
        assert len(whole) == 128
        assert len(chosen) == 5
        assert "book_room" in chosen
        [line] = [line for line in result.trace.lines if line["step"] == "tools"]
        assert line["outcome"] == "limited"

    async def test_limit_is_the_model_s(self) -> None:
        tools = [make_tool(f"tool_{n}", f"Does the thing of number {n}.") for n in range(9)]
        await sync_to_async(set_settings)(tool_mode="local", tool_top_k=8, tool_threshold=0.0)
        with ModelServer(api_key="k") as server, declared(), served(server, most_tools=4):
            with declared_tools(*tools):
                await self.indexed()
                server.script(ANSWER)
                await self.ask()
            await closed()
            assert len(offered(server.calls[0])) == 4

    async def indexed(self) -> None:
        await in_database(sync_index)
