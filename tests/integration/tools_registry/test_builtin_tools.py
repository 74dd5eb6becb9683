"""The built-in tools, called as the loop calls them."""

import json
from typing import Any
from unittest import mock

from asgiref.sync import sync_to_async
from django.core.cache import cache
from django.test import TestCase, override_settings

from agents.database import in_database, in_thread
from faqs.models import LearnedKind
from knowledge.search import search
from tests.factories import make_learned, make_library
from tools_registry.catalog import available_tools
from tools_registry.execution import ToolCall, ToolContext, ToolResult, execute_calls
from tools_registry.models import ToolOverride, replace_tools_token


class BuiltinToolCase(TestCase):
    def setUp(self) -> None:
        cache.clear()

    async def call(self, name: str, context: ToolContext, **arguments: Any) -> ToolResult:
        await sync_to_async(ToolOverride.objects.get_or_create)(tool_name=name)
        await sync_to_async(replace_tools_token)()
        tools = await sync_to_async(available_tools)(user_tags=frozenset(), agent_id=None)
        call = ToolCall("c", name, json.dumps(arguments))
        return (await execute_calls([call], tools=tools, context=context, approved={"c"}))[0]


class BuiltinToolTests(BuiltinToolCase):
    async def test_knowledge_is_searched_within_the_deployment(self) -> None:
        library = await sync_to_async(make_library)()
        context = ToolContext(deployment_id=library.pk, agent_id=library.agent_id)
        with mock.patch("tools_registry.tools.search", wraps=search) as searched:
            result = await self.call("search_knowledge", context, query="prix de la carte", limit=2)
        assert searched.call_args.args[1].text == "prix de la carte", "its words count, as in a turn"
        found = json.loads(result.content)
        assert result.success, result.content
        assert 1 <= len(found) <= 2
        assert any("12 euros" in passage["text"] for passage in found)

    async def test_greeting_that_staff_answered_is_no_knowledge(self) -> None:
        library = await sync_to_async(make_library)()
        for kind in (LearnedKind.COURTESY, LearnedKind.FAQ):
            await sync_to_async(make_learned)(
                library.agent, question=f"Bonjour {kind}", answer=f"Je suis {kind}.", kind=kind
            )
        context = ToolContext(deployment_id=library.pk, agent_id=library.agent_id)
        result = await self.call("search_knowledge", context, query="Bonjour", limit=10)
        texts = [passage["text"] for passage in json.loads(result.content)]
        assert "Je suis faq." in texts
        assert "Je suis courtesy." not in texts

    @override_settings(VECTOR_STORES={"default": {"BACKEND": "tests.in_process_qdrant.InProcessQdrant"}})
    async def test_database_is_read_on_its_bridge_and_the_network_is_not(self) -> None:
        library = await sync_to_async(make_library)()
        context = ToolContext(deployment_id=library.pk, agent_id=library.agent_id)
        steps: list[str] = []

        def noting(name: str, bridge: Any) -> Any:
            async def cross(step: Any, *args: Any, **kwargs: Any) -> Any:
                steps.append(name)
                with mock.patch("tools_registry.tools.search", side_effect=searching):
                    return await bridge(step, *args, **kwargs)

            return cross

        def searching(*args: Any, **kwargs: Any) -> Any:
            steps.append("search")
            return search(*args, **kwargs)

        with (
            mock.patch("tools_registry.execution.in_database", noting("database", in_database)),
            mock.patch("tools_registry.execution.in_thread", noting("thread", in_thread)),
        ):
            result = await self.call("search_knowledge", context, query="prix de la carte")

        assert result.success, result.content
        # The wall; the settings; embedding and store; the passages confirmed; the use counted.
        assert steps == ["database", "database", "thread", "search", "database", "database"]

    async def test_search_outside_a_deployment_and_beyond_its_bounds_is_refused(self) -> None:
        for limit, refusal in ((5, "tool_reported_error"), (500, "invalid_tool_arguments")):
            result = await self.call("search_knowledge", ToolContext(), query="anything", limit=limit)
            assert result.error == refusal

    async def test_date_and_time_are_those_of_the_zone(self) -> None:
        result = await self.call("current_date_and_time", ToolContext(language="en"), time_zone="Asia/Tokyo")
        wrong = await self.call("current_date_and_time", ToolContext(), time_zone="../etc/passwd")
        assert json.loads(result.content)["now"].endswith("+09:00")
        assert wrong.error == "tool_reported_error"
