"""What an upgrade does to the tools that staff had permitted: those of MCP servers ask first, and staff's decisions
stay.

A decision that a tool runs unasked is about that tool, as it was then.
"""

from importlib import import_module
from unittest import mock

from django.apps import apps
from django.test import TestCase

from tools_registry.catalog import all_tools
from tools_registry.models import RemoteTool, SourceKind, ToolOverride, ToolSource
from tools_registry.sources.base import DeclaredTool, ReadTools
from tools_registry.sources.remote import refresh_source

upgrade = import_module("tools_registry.migrations.0002_reasons_and_large_sources")


class UpgradeTests(TestCase):
    def add(self, source: ToolSource, name: str, *, asks: bool, method: str = "") -> None:
        RemoteTool.objects.create(
            source=source,
            tool_name=name,
            remote_name=name,
            needs_approval=asks,
            is_allowed=True,
            operation={"method": method} if method else {},
        )

    def asks(self, name: str) -> tuple[bool, bool | None]:
        """What is stored of the source's word, and staff's decision."""
        row = RemoteTool.objects.get(tool_name=name)
        decided = ToolOverride.objects.filter(tool_name=name).first()
        return row.needs_approval, decided.needs_approval if decided else None

    def test_mcp_tools_ask_and_decisions_of_staff_stay(self) -> None:
        mcp = ToolSource.objects.create(slug="m", name="M", kind=SourceKind.MCP_STDIO, command="m")
        service = ToolSource.objects.create(slug="o", name="O", kind=SourceKind.OPENAPI)
        self.add(mcp, "silent", asks=False)
        self.add(mcp, "freed", asks=False)
        ToolOverride.objects.create(tool_name="freed", needs_approval=False)
        self.add(mcp, "ticked", asks=True)
        ToolOverride.objects.create(tool_name="ticked")
        self.add(service, "reads", asks=False, method="get")
        self.add(service, "reads_ticked", asks=True, method="get")
        self.add(service, "writes", asks=True, method="post")
        self.add(service, "writes_freed", asks=False, method="post")
        upgrade.ask_for_approval(apps, None)
        assert self.asks("silent") == (True, None)
        assert self.asks("freed") == (True, False)
        assert self.asks("ticked") == (True, True)
        assert self.asks("reads") == (False, None)
        assert self.asks("reads_ticked") == (True, True)
        assert self.asks("writes") == (True, None)
        assert self.asks("writes_freed") == (False, False)
        assert RemoteTool.objects.filter(is_allowed=True).count() == 7


class ReleaseTests(TestCase):
    def read(self, *, asks: bool) -> None:
        """A source that declares one tool, its list read and the tool permitted."""
        source, _new = ToolSource.objects.get_or_create(
            slug="m", defaults={"name": "M", "kind": SourceKind.MCP_STDIO, "command": "m"}
        )
        tool = DeclaredTool("erase", "Erases.", {"type": "object"}, needs_approval=asks)
        with mock.patch("tools_registry.sources.remote.list_tools") as listed:
            listed.return_value = ReadTools([tool])
            refresh_source(source)
        RemoteTool.objects.update(is_allowed=True)
        source.save()

    def release(self) -> None:
        """As staff's action does."""
        ToolOverride.objects.get(tool_name="m_erase").delete()
        ToolOverride.objects.create(tool_name="m_erase", needs_approval=False)

    def asks(self) -> bool:
        found = all_tools().named("m_erase")
        assert found is not None
        return found.needs_approval

    def test_tool_that_staff_released_runs_unasked_also_after_another_reading(self) -> None:
        self.read(asks=True)
        self.release()
        self.read(asks=True)
        assert not self.asks()

    def test_tool_of_another_source_of_that_name_asks(self) -> None:
        self.read(asks=True)
        self.release()
        ToolSource.objects.all().delete()
        self.read(asks=True)
        assert self.asks()

    def test_tool_that_was_harmless_when_it_was_released_asks_once_it_is_not(self) -> None:
        self.read(asks=False)
        self.release()
        self.read(asks=True)
        assert self.asks()
