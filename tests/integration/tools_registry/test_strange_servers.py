"""A server that misbehaves costs a desk nothing but what is bad of it, and its page says what that is."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.test import override_settings

from tests.factories import fresh, make_source
from tests.integration.tools_registry.test_sources import VISITOR, SourceCase, allow_all
from tests.servers.model_server import _schema_fault
from tools_registry.catalog import available_tools
from tools_registry.errors import ToolServerError
from tools_registry.execution import ToolCall, ToolContext, execute_calls
from tools_registry.models import ToolOverride, ToolSource
from tools_registry.sources.remote import refresh_source

STRANGE = Path(__file__).parents[2] / "servers" / "strange_mcp.py"
SERVERS = {"strange": [sys.executable, str(STRANGE)], "malformed": [sys.executable, str(STRANGE), "malformed"]}
KEY = "k3y/of the=library"


@override_settings(MCP_STDIO_SERVERS=SERVERS)
class StrangeServerTests(SourceCase):
    source: ToolSource

    @classmethod
    def setUpClass(cls) -> None:
        cls.enterClassContext(
            mock.patch.dict(os.environ, {"TOOL_SECRET_LIBRARY": KEY, "TOOL_SECRET_LIBRARY_HOSTS": "strange"})
        )
        super().setUpClass()

    @classmethod
    def setUpTestData(cls) -> None:
        cls.source = make_source(command="strange", headers={"LIBRARY_KEY": "${TOOL_SECRET_LIBRARY}"})
        refresh_source(cls.source)

    def setUp(self) -> None:
        self.tools = allow_all()

    def run_tool(self, name: str) -> tuple[bool, str, Any]:
        """Whether it succeeded, its code, and what the model reads."""
        [result] = async_to_sync(execute_calls)(
            [ToolCall("c", f"lib_{name}", "{}")], tools=self.tools, context=ToolContext()
        )
        return result.success, result.error or "", json.loads(result.content)

    def test_tools_that_cannot_be_used_say_why_and_lose_no_other(self) -> None:
        self.source.refresh_from_db()
        problems = dict(self.source.problems)
        assert problems.keys() == {"elsewhere", "huge", "only_as_task"}
        assert "leaves the document" in problems["elsewhere"]
        assert "40000 at most" in problems["huge"]
        assert "task" in problems["only_as_task"]
        assert self.source.last_error == ""
        assert self.tools.named("lib_no_items") is not None

    def test_list_that_is_not_of_the_protocol_is_refused_in_a_line(self) -> None:
        source = make_source(slug="bad", name="Bad", command="malformed")
        with self.assertRaisesMessage(ToolServerError, "not what the protocol describes: tools."):
            refresh_source(source)
        assert "\n" not in fresh(source).last_error

    def test_tool_that_an_older_version_permitted_as_it_was_is_made_fit_or_not_offered(self) -> None:
        rows = ToolOverride.objects.filter(source=self.source)
        rows.filter(remote_name="no_items").update(
            declared_parameters={"type": "object", "properties": {"names": {"type": "array"}}, "$schema": "x"}
        )
        rows.filter(remote_name="circle").update(declared_parameters={"type": "string"})
        self.source.save()
        offered = available_tools(user_tags=VISITOR, agent_id=None)
        fit = offered.named("lib_no_items")
        assert fit is not None
        assert _schema_fault(dict(fit.parameters)) == ""
        assert offered.named("lib_circle") is None
        # Read again, what was only written otherwise stays permitted.
        refresh_source(self.source)
        assert rows.get(remote_name="no_items").is_active
        assert not rows.get(remote_name="circle").is_active

    def test_nul_is_stored_and_told_without(self) -> None:
        assert ToolOverride.objects.get(remote_name="nul").declared_description == "Does it."
        assert self.run_tool("nul") == (True, "", "The shelf is red.")

    def test_only_what_says_that_it_reads_runs_unasked(self) -> None:
        asking = {spec.name for spec in self.tools if spec.needs_approval and spec.source == "mcp"}
        assert asking == {"lib_silent", "lib_writes", "lib_writes_gently", "lib_contradicts"}
        assert self.run_tool("silent")[1] == "tool_needs_approval"

    def test_tool_that_stops_being_harmless_asks_at_once_and_one_that_says_it_is_now_goes_on_asking(self) -> None:
        for name, before in (("silent", False), ("everything", True)):
            ToolOverride.objects.filter(remote_name=name).update(declared_approval=before)
            refresh_source(self.source)
            row = ToolOverride.objects.get(remote_name=name)
            assert (row.declared_approval, row.is_active) == (True, True)

    def test_mistake_of_the_caller_is_told(self) -> None:
        for _time in range(2):
            success, code, content = self.run_tool("wants_foo")
        usage = ToolOverride.objects.get(tool_name="lib_wants_foo")
        assert (success, code) == (False, "tool_reported_error")
        assert "write foo=1" in content["error"]["detail"]
        assert (usage.called, usage.failed) == (2, 2)
        assert "write foo=1" in usage.last_error

    def test_failure_of_the_server_is_told_and_counts(self) -> None:
        with self.assertLogs("tools_registry", "INFO") as logs:
            success, code, content = self.run_tool("breaks_down")
        assert (success, code) == (False, "tool_failed")
        assert "closed on Mondays" in content["error"]["detail"]
        assert "closed on Mondays" in ToolOverride.objects.exclude(last_error="").get().last_error
        assert "Mondays" not in str(logs.output)

    def test_answer_that_is_not_of_the_protocol_or_breaks_its_own_schema_is_a_failure(self) -> None:
        assert self.run_tool("says_other")[1] == "tool_failed"
        _success, code, content = self.run_tool("nonsense")
        assert code == "tool_failed"
        assert "not what the protocol describes" in content["error"]["detail"]

    def test_texts_and_links_reach_the_model_and_binaries_are_named(self) -> None:
        _success, _code, content = self.run_tool("everything")
        assert content == [
            "See:",
            {"uri": "file:///a.txt", "type": "text/plain", "text": "The shelf is red."},
            {
                "uri": "file:///b.pdf",
                "type": "application/pdf",
                "text": "(application/pdf, 6 bytes: not a text, not shown)",
            },
            {"link": {"uri": "file:///c.txt", "name": "c", "description": "More."}},
        ]
        assert self.run_tool("picture")[2] == {
            "result": {"taken": True},
            "content": ["(image/png, 9 bytes: not a text, not shown)"],
        }

    def test_secret_that_the_server_echoes_is_told_to_nobody(self) -> None:
        assert self.run_tool("echoes")[2] == "Authorization was ***"

    def test_secret_in_the_reason_of_a_failed_reading_is_told_to_nobody(self) -> None:
        failure = ToolServerError(f"The key {KEY} is not valid (-32603)")
        with mock.patch("tools_registry.sources.remote.list_tools", side_effect=failure):
            with self.assertRaisesMessage(ToolServerError, "The key *** is not valid"):
                refresh_source(self.source)
        assert fresh(self.source).last_error == "The key *** is not valid (-32603)"
