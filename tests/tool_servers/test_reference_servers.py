"""The reference MCP servers, each from its package, over stdio: what is read, what asks first, what calls bring.

The table is written to `tool_servers.md` beside the environments.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from asgiref.sync import async_to_sync
from django.test import TestCase, override_settings

from tests.clients.environments import INSTALLED, node_with, python_with
from tests.servers.model_server import _schema_fault
from tests.waiting import PATIENCE_SECONDS
from tools_registry.catalog import ToolList, available_tools
from tools_registry.execution import ToolCall, ToolContext, breakers, execute_calls
from tools_registry.models import SourceKind, ToolOverride, ToolSource
from tools_registry.sources.mcp import close_sessions
from tools_registry.sources.remote import RefreshReport, refresh_source

HEAD = "| server | tools | left out | ask first | calls | what the model is told of a mistake |"
rows: list[str] = []


@dataclass(frozen=True)
class Made:
    """A call, and what its result must hold."""

    name: str
    arguments: dict[str, Any]
    holds: str
    error: str | None = None


class ServerCase(TestCase):
    #: What the servers share is no test of its own.
    __test__ = False

    name: ClassVar[str]
    asks: ClassVar[set[str]]
    left_out: ClassVar[set[str]] = set()
    made: ClassVar[Sequence[Made]]
    report: RefreshReport
    folder: Path

    def __init_subclass__(cls) -> None:
        cls.__test__ = True

    @classmethod
    def command(cls) -> list[str]:
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="tools"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "a.txt").write_text("Bonjour.")
        servers = {cls.name: cls.command()}
        cls.enterClassContext(override_settings(MCP_STDIO_SERVERS=servers))
        cls.addClassCleanup(close_sessions)
        super().setUpClass()

    @classmethod
    def setUpTestData(cls) -> None:
        source = ToolSource.objects.create(
            slug="s", name=cls.name, kind=SourceKind.MCP_STDIO, command=cls.name, timeout_seconds=PATIENCE_SECONDS
        )
        cls.report = refresh_source(source)
        ToolOverride.objects.filter(source__isnull=False).update(is_active=True)
        source.save()

    def setUp(self) -> None:
        breakers.clear()
        self.tools: ToolList = available_tools(user_tags=frozenset(), agent_id=None)
        self.specs = [spec for spec in self.tools if spec.source == "mcp"]

    def test_what_is_offered_is_fit_and_only_what_reads_runs_unasked(self) -> None:
        for spec in self.specs:
            assert _schema_fault(dict(spec.parameters)) == "", spec.name
        assert {name for name, _reason in self.report.refused} == self.left_out
        names = ToolOverride.objects.filter(declared_approval=True).values_list("remote_name", flat=True)
        assert set(names) == self.asks

    def test_calls_bring_what_the_server_says(self) -> None:
        mistake = "–"
        for made in self.made:
            text = json.dumps(made.arguments).replace("FOLDER", str(self.folder))
            name = ToolOverride.objects.get(remote_name=made.name).tool_name
            [result] = async_to_sync(execute_calls)(
                [ToolCall("c", name, text)], tools=self.tools, context=ToolContext(), approved={"c"}
            )
            assert result.error == made.error, (made.name, result.content)
            assert made.holds in result.content, (made.name, result.content)
            if made.error:
                mistake = json.loads(result.content)["error"]["detail"][:90].replace("|", "/")
        rows.append(
            f"| {self.name} | {len(self.specs)} | {len(self.left_out)} | {len(self.asks)} | "
            f"{len(self.made)} of {len(self.made)} | {mistake} |"
        )


REPORTED = "tool_reported_error"


class EverythingTests(ServerCase):
    name = "everything"
    asks = {"gzip-file-as-resource", "toggle-simulated-logging", "toggle-subscriber-updates"}
    left_out = {"simulate-research-query"}
    made = (
        Made("echo", {"message": "bonjour"}, "Echo: bonjour"),
        Made("get-sum", {"a": 2, "b": 40}, "42"),
        Made("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "This is a plaintext resource"),
        Made("get-resource-links", {"count": 2}, "demo://resource/dynamic/text/2"),
        Made("get-tiny-image", {}, "[image png, 4 kB]"),
        Made("get-structured-content", {"location": "Chicago"}, '"temperature"'),
        Made("trigger-long-running-operation", {"duration": 1, "steps": 3}, "completed"),
        Made("get-sum", {"a": 1e308}, "'b' is a required property", "invalid_tool_arguments"),
    )

    @classmethod
    def command(cls) -> list[str]:
        return _of_node("everything")


class MemoryTests(ServerCase):
    name = "memory"
    asks = {
        "create_entities",
        "create_relations",
        "add_observations",
        "delete_entities",
        "delete_observations",
        "delete_relations",
    }
    made = (
        Made(
            "create_entities",
            {"entities": [{"name": "Marie", "entityType": "person", "observations": ["thé"]}]},
            "Marie",
        ),
        Made("search_nodes", {"query": "Marie"}, "thé"),
        Made("add_observations", {"observations": [{"entityName": "Paul", "contents": ["café"]}]}, "Paul", REPORTED),
    )

    @classmethod
    def command(cls) -> list[str]:
        file = cls.folder / "memory.jsonl"
        return ["/usr/bin/env", f"MEMORY_FILE_PATH={file}", *_of_node("memory")]


class FilesystemTests(ServerCase):
    name = "filesystem"
    asks = {"write_file", "edit_file", "create_directory", "move_file"}
    made = (
        Made("read_text_file", {"path": "FOLDER/a.txt"}, "Bonjour."),
        Made("write_file", {"path": "FOLDER/b.txt", "content": "Bonsoir."}, "Success"),
        Made("move_file", {"source": "FOLDER/b.txt", "destination": "FOLDER/c.txt"}, "Success"),
        Made("list_directory", {"path": "FOLDER"}, "c.txt"),
        Made("read_text_file", {"path": "/etc/passwd"}, "outside allowed", REPORTED),
    )

    @classmethod
    def command(cls) -> list[str]:
        return [*_of_node("filesystem"), str(cls.folder)]


class TimeTests(ServerCase):
    name = "time"
    asks: ClassVar[set[str]] = set()
    made = (
        Made("get_current_time", {"timezone": "Europe/Paris"}, "day_of_week"),
        Made("get_current_time", {"timezone": "Nowhere"}, "Invalid timezone", REPORTED),
    )

    @classmethod
    def command(cls) -> list[str]:
        return [str(python_with("mcp-time", "mcp-server-time").with_name("mcp-server-time"))]


class GitTests(ServerCase):
    name = "git"
    asks = {"git_commit", "git_add", "git_reset", "git_create_branch", "git_checkout"}
    made = (
        Made("git_status", {"repo_path": "FOLDER"}, "a.txt"),
        Made("git_add", {"repo_path": "FOLDER", "files": ["a.txt"]}, "staged"),
        Made("git_show", {"repo_path": "FOLDER", "revision": "none"}, "none", REPORTED),
    )

    @classmethod
    def command(cls) -> list[str]:
        git = shutil.which("git")
        if git is None:
            pytest.skip("git is not installed")
        subprocess.run([git, "init", "--quiet", str(cls.folder)], check=True)  # noqa: S603
        program = python_with("mcp-git", "mcp-server-git").with_name("mcp-server-git")
        # The server looks for git on its path, and gets a bare environment.
        return [str(program), "--repository", str(cls.folder)]


def _of_node(name: str) -> list[str]:
    folder = node_with(f"mcp-{name}", f"@modelcontextprotocol/server-{name}")
    return [str(folder / "node_modules" / ".bin" / f"mcp-server-{name}")]


@pytest.fixture(scope="module", autouse=True)
def table() -> Any:
    yield
    if rows:
        rule = "| --- | --- | --- | --- | --- | --- |"
        INSTALLED.mkdir(parents=True, exist_ok=True)
        (INSTALLED / "tool_servers.md").write_text("\n".join([HEAD, rule, *rows]) + "\n")
