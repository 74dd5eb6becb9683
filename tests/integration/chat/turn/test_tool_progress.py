"""What a long tool says of how far it is reaches whoever follows the turn, and ends with the tool."""

import threading
from typing import Any
from unittest import mock

from chat.protocol import Tool
from tests.factories import declared_tools, make_tool
from tests.integration.chat.turn import test_path
from tests.integration.chat.turn.test_path import scripted
from tests.integration.chat.turn.test_tool_loop import LoopTestCase
from tests.tools import asking, call, declared
from tools_registry.tool import ToolContext

told = threading.Event()


def slowly(arguments: Any, context: ToolContext) -> str:
    assert context.on_progress is not None
    for step in (1, 2):
        # The next step begins once this one was told.
        context.on_progress(step, 2, f"shelf {step}" + "\N{ZERO WIDTH SPACE}" + "!" * 300)
        told.wait(5)
        told.clear()
    return "counted"


class ProgressTests(LoopTestCase):
    async def test_progress_is_told_while_the_tool_runs(self) -> None:
        heard: list[Tool] = []

        class Listener(test_path.Listener):
            async def __call__(self, event: Any) -> None:
                await super().__call__(event)
                if isinstance(event, Tool):
                    heard.append(event)
                    if event.progress:
                        told.set()

        tool = make_tool("count_shelves", invoke=slowly)
        with (
            declared(),
            declared_tools(tool),
            scripted(asking(call("count_shelves")), ["Compté."]),
            mock.patch.object(test_path, "Listener", Listener),
            mock.patch("chat.turn.tool_loop._PROGRESS_SECONDS", 0.0),
        ):
            await self.ask()
        assert [event.status for event in heard] == ["running", "running", "running", "done"]
        first, second = heard[1].progress, heard[2].progress
        assert first.startswith("1 / 2 · shelf 1!!!")
        assert second.startswith("2 / 2 · shelf 2")
        assert len(first) == 200
        assert "progress" in heard[1].as_json()
        assert "progress" not in heard[3].as_json()
