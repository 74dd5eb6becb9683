"""Images in the results of tools: shown to a model that sees, within bounds, and named to every other."""

import base64
import json
from typing import Any

from chat.models import Message, Role
from tests.factories import declared_tools, make_tool
from tests.integration.chat.turn.test_tool_loop import LoopTestCase, closed, served
from tests.servers.model_server import ModelReply, ModelServer
from tests.tools import declared
from tools_registry.tool import ToolImage

PIXEL = base64.b64encode(b"\x89PNG pixel").decode()
ANSWER = ModelReply(tokens=["Un chat."])


def image(kind: str = "image/png", encoded: str = PIXEL) -> ToolImage:
    return ToolImage(kind, encoded)


def asked_for(*names: str) -> ModelReply:
    calls = [{"id": f"c{n}", "name": name, "arguments": "{}"} for n, name in enumerate(names)]
    return ModelReply(tool_calls=calls, finish_reason="tool_calls")


class ImageTests(LoopTestCase):
    async def last_prompt(
        self, value: object, *, names: tuple[str, ...] = ("photo",), **options: Any
    ) -> list[dict[str, Any]]:
        """What the model is sent after tools whose results are `value`."""
        tools = {name: make_tool(name, invoke=lambda _a, _c: value) for name in names}
        with ModelServer(api_key="k") as server, declared(), served(server, **options):
            with declared_tools(*tools.values()):
                server.script(asked_for(*names), ANSWER)
                result, _listener = await self.ask()
            await closed()
            assert [call.status for call in server.calls] == [200, 200]
        assert result.answer.text == "Un chat."
        messages: list[dict[str, Any]] = server.calls[-1].body["messages"]
        return messages

    async def test_model_that_sees_is_shown_them_after_the_results(self) -> None:
        value = ["Here it is:", {"deep": [image()]}]
        messages = await self.last_prompt(value, vision_models=["strict"])
        *_others, told, shown = messages
        assert told["role"] == "tool"
        assert json.loads(told["content"]) == ["Here it is:", {"deep": ["[image png, 1 kB]"]}]
        assert shown["role"] == "user"
        text, picture = shown["content"]
        assert "photo" in text["text"]
        assert picture == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}

    async def test_model_that_does_not_see_is_told_their_names_and_so_is_the_thread(self) -> None:
        messages = await self.last_prompt(image(), vision_models=["another"])
        assert messages[-1]["role"] == "tool"
        assert json.loads(messages[-1]["content"]) == "[image png, 1 kB]"
        stored = [message async for message in Message.objects.filter(role=Role.TOOL)]
        assert [PIXEL in message.content for message in stored] == [False]

    async def test_size_number_and_kind_are_bounded(self) -> None:
        large, strange = image(encoded="A" * 1_400_000), image("image/svg+xml")
        many = [large, strange, *[image()] * 3]
        messages = await self.last_prompt(many, names=("photo", "photos"), vision_models=["strict"])
        assert "[image png, 1050 kB]" in messages[-2]["content"]
        parts = messages[-1]["content"]
        assert [part["type"] for part in parts] == ["text", *["image_url"] * 4]
