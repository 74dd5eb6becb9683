"""What a turn offers of tools and what that costs; what a model refuses."""

import time
import uuid
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync, sync_to_async
from django.test import TestCase, override_settings

from agents.database import in_database, in_thread
from agents.effective import effective_config
from agents.models import Deployment
from chat.models import AnswerSource, TurnStatus
from chat.turn.tool_loop import choose_tools, load_tool_ground
from chat.turn.values import Toolbox, ToolGround, TurnRequest
from knowledge.embeddings.base import Purpose, embedder
from tests.factories import declared_tools, make_agent, make_deployment, make_tool, set_settings
from tests.integration.chat.turn.test_tool_loop import LoopTestCase, closed, served, weather
from tests.servers.model_server import ModelReply, ModelServer
from tests.tools import declared
from tools_registry.index import sync_index
from tools_registry.models import ToolOverride, replace_tools_token

ANSWER = ModelReply(tokens=["À l’accueil [1]."])


def offered(call: Any) -> set[str]:
    return {tool["function"]["name"] for tool in call.body.get("tools", [])}


class RefusedToolsTests(LoopTestCase):
    async def test_refusal_of_tools_is_answered_without_any_or_gives_way_to_the_quotation(self) -> None:
        refusal = ModelReply(status=400, error_message="Something about it is wrong.")
        for second, source in ((ANSWER, AnswerSource.LLM), (refusal, AnswerSource.EXTRACTIVE)):
            with ModelServer(api_key="k") as server, declared(weather), served(server):
                server.script(refusal, second)
                result, _listener = await self.ask()
                await closed()
                assert [offered(call) for call in server.calls] == [{"weather"}, set()]
            assert (result.status, result.answer.source) == (TurnStatus.DONE, source)

    async def test_direct_gives_way_to_selection_above_what_the_model_takes(self) -> None:
        tools = [make_tool(f"tool_{n}", f"Does thing{n}.") for n in range(140)]
        room = make_tool("book_room", "Réserver une salle de travail de la bibliothèque.")
        with ModelServer(api_key="k") as server, declared(), served(server):
            with declared_tools(*tools[:128]):
                server.script(ANSWER)
                await self.ask()
            with declared_tools(*tools, room):
                await in_database(sync_index)
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
                await in_database(sync_index)
                server.script(ANSWER)
                await self.ask()
            await closed()
            assert len(offered(server.calls[0])) == 4


TOOLS = (
    make_tool("weather_forecast", "Gives the weather forecast of a city."),
    make_tool("find_route", "Finds a route between two places on a map."),
    make_tool("delete_user", "Deletes the account of a user.", tags=frozenset({"admin"})),
)
QUESTION = "What will the weather be?"


@override_settings(CONFIG_CACHE_SECONDS=60.0)
class ToolboxCase(TestCase):
    def setUp(self) -> None:
        self.enterContext(declared_tools(*TOOLS))

    def ground(self, deployment: Deployment, **options: Any) -> ToolGround:
        request = TurnRequest(deployment.pk, QUESTION, "en", uuid.uuid4(), uuid.uuid4(), **options)
        ground = load_tool_ground(request, effective_config(deployment))
        assert ground is not None
        return ground

    def names(self, deployment: Deployment, **options: Any) -> set[str]:
        offered = {spec.name for spec in self.ground(deployment, **options).candidates}
        return offered & {spec.name for spec in TOOLS}

    def choose(self, ground: ToolGround, deployment: Deployment) -> Toolbox:
        vector = embedder().embed_one(QUESTION, purpose=Purpose.QUERY)
        config = effective_config(deployment)
        return async_to_sync(choose_tools)(ground, config, vector=vector, question=QUESTION)


class CostTests(ToolboxCase):
    def test_unchanged_catalogue_costs_a_visitor_no_query(self) -> None:
        deployment = make_deployment()
        config, request = (
            effective_config(deployment),
            TurnRequest(deployment.pk, QUESTION, "en", uuid.uuid4(), uuid.uuid4()),
        )
        load_tool_ground(request, config)
        with self.assertNumQueries(0):
            load_tool_ground(request, config)

    def test_every_second_the_catalogue_is_read_again(self) -> None:
        deployment = make_deployment()
        assert "find_route" in self.names(deployment)
        # As another process changes it: no signal reaches this one.
        ToolOverride.objects.bulk_create([ToolOverride(tool_name="find_route", is_active=False)])
        replace_tools_token()
        assert "find_route" in self.names(deployment)
        with mock.patch("agents.cache.time.monotonic", return_value=time.monotonic() + 61):
            assert "find_route" not in self.names(deployment)

    @override_settings(VECTOR_STORES={"default": {"BACKEND": "tests.in_process_qdrant.InProcessQdrant"}})
    def test_store_on_the_network_is_not_asked_on_the_bridge_of_the_database(self) -> None:
        deployment = make_deployment(make_agent(tool_mode="external", tool_top_k=1))
        sync_index(external=True)
        ground = self.ground(deployment)
        with (
            mock.patch("chat.turn.tool_loop.in_database") as database,
            mock.patch("chat.turn.tool_loop.in_thread", side_effect=in_thread) as thread,
        ):
            toolbox = self.choose(ground, deployment)
        assert (database.called, thread.called) == (False, True)
        assert [spec.name for spec in toolbox.specs] == ["weather_forecast"]
