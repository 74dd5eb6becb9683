"""A desk whose tools misbehave in every way of a strange server answers, and the page of the source says what is wrong."""

import json
import sys
from pathlib import Path

from asgiref.sync import async_to_sync
from django.test import override_settings

from agents.admin_base import admin_url
from tests.admin_pages import superuser_client
from tests.factories import set_settings
from tests.integration.chat.turn.test_tool_loop import LoopTestCase, closed, served
from tests.servers.model_server import ModelReply, ModelServer
from tests.tools import declared
from tools_registry.execution import breakers
from tools_registry.models import RemoteTool, SourceKind, ToolOverride, ToolSource
from tools_registry.sources.mcp import close_sessions
from tools_registry.sources.remote import refresh_source

STRANGE = Path(__file__).parents[3] / "servers" / "strange_mcp.py"
CALLED = (
    "no_items strange_type two_ways circle wants_foo breaks_down says_other nonsense everything picture slowly echoes"
).split()


@override_settings(MCP_STDIO_SERVERS={"strange": [sys.executable, str(STRANGE)]})
class StrangeSourceTests(LoopTestCase):
    def setUp(self) -> None:
        super().setUp()
        breakers.clear()
        self.addCleanup(close_sessions)
        self.source = ToolSource.objects.create(
            slug="lib", name="Library", kind=SourceKind.MCP_STDIO, command="strange"
        )
        refresh_source(self.source)
        RemoteTool.objects.update(is_allowed=True)
        ToolOverride.objects.update(needs_approval=False)
        self.source.save()
        set_settings(max_tool_calls=len(CALLED))

    def test_all_of_its_tools_are_offered_and_called_and_the_question_is_answered(self) -> None:
        calls = [{"id": f"c{number}", "name": f"lib_{name}", "arguments": "{}"} for number, name in enumerate(CALLED)]
        with ModelServer(api_key="k") as server, declared(), served(server):
            server.script(ModelReply(tool_calls=calls, finish_reason="tool_calls"), ModelReply(tokens=["À l’accueil."]))

            async def ask() -> str:
                result, _listener = await self.ask()
                await closed()
                return result.answer.text

            assert async_to_sync(ask)() == "À l’accueil."
            assert [call.status for call in server.calls] == [200, 200], "no tool was refused"
            told = {
                calls[number]["name"]: message["content"]
                for number, message in enumerate(m for m in server.calls[-1].body["messages"] if m["role"] == "tool")
            }
        assert len(told) == len(CALLED)
        assert "write foo=1" in told["lib_wants_foo"]
        assert "closed on Mondays" in told["lib_breaks_down"]
        assert json.loads(told["lib_slowly"]) == "done"

        page = superuser_client().get(admin_url(ToolSource, "change", self.source.pk))
        for name in ("no_schema", "not_an_object", "elsewhere", "huge", "only_as_task"):
            self.assertContains(page, name)
        for reason in ("write foo=1", "closed on Mondays", "not of type", "protocol describes"):
            self.assertContains(page, reason)
