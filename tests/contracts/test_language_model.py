"""What every language model does, whatever is behind it: one suite, each backend of the `LLMS` setting.

The `openai` backend talks to the scripted server on loopback. What only a network can do (cuts, byte splits,
disconnections, retries) is in `tests/unit/agents/test_llm_openai.py` and at the end of this file.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from agents.errors import (
    LLMError,
    LLMKeyRefusedError,
    LLMQuotaError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
    LLMUnavailableError,
)
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, RequestedCall, StreamChunk
from agents.llm.openai import OpenAILanguageModel
from tests.scripted import ScriptedLLM, ScriptedReply
from tests.servers.model_server import ModelReply, ModelServer
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.contracts

MESSAGES = [PromptMessage(role="system", content="Réponds."), PromptMessage(role="user", content="Où est la gare ?")]
OPTIONS = GenerationOptions()
FAULTS: dict[type[LLMError], ModelReply] = {
    LLMUnavailableError: ModelReply(status=500),
    LLMRateLimitedError: ModelReply(status=429, retry_after=7),
    LLMKeyRefusedError: ModelReply(status=403),
    LLMQuotaError: ModelReply(status=402),
    LLMResponseError: ModelReply(status=404),
}


@dataclass(frozen=True)
class Stage:
    """A backend and the two ways to tell it what comes next."""

    model: LanguageModel
    say: Callable[[Sequence[str]], None]
    call_tools: Callable[[Sequence[str], Sequence[RequestedCall]], None]
    fail: Callable[[type[LLMError]], None]
    calls: Callable[[], int]

    def run(self, story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run in a loop of its own, and leave no connection of it behind."""

        async def told() -> Any:
            try:
                return await story()
            finally:
                if isinstance(self.model, OpenAILanguageModel):
                    await self.model.aclose()

        return asyncio.run(told())

    def stream(
        self, messages: Sequence[PromptMessage] = MESSAGES, options: GenerationOptions = OPTIONS
    ) -> list[StreamChunk]:
        async def story() -> list[StreamChunk]:
            return [chunk async for chunk in self.model.stream(messages, options)]

        chunks: list[StreamChunk] = self.run(story)
        return chunks


def _declared(call: RequestedCall) -> dict[str, str]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


@pytest.fixture(params=["scripted", "openai"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    if request.param == "scripted":
        llm = ScriptedLLM(model="contract")
        yield Stage(
            model=llm,
            say=lambda pieces: llm.script(ScriptedReply(pieces=pieces, interval=0.001)),
            call_tools=lambda pieces, calls: llm.script(
                ScriptedReply(pieces=pieces, tool_calls=calls, finish_reason="tool_calls")
            ),
            fail=lambda kind: llm.script(kind("declared")),
            calls=lambda: len(llm.calls),
        )
        return
    with ModelServer() as server:
        model = OpenAILanguageModel(
            base_url=server.base_url, model="contract", read_timeout=PATIENCE_SECONDS, max_retries=0
        )
        yield Stage(
            model=model,
            say=lambda pieces: server.script(ModelReply(tokens=pieces, interval=0.001)),
            call_tools=lambda pieces, calls: server.script(
                ModelReply(tokens=pieces, tool_calls=[_declared(call) for call in calls])
            ),
            fail=lambda kind: server.script(FAULTS[kind]),
            calls=lambda: len(server.calls),
        )


def test_streamed_text_comes_in_order_and_the_whole_reply_once_and_last(stage: Stage) -> None:
    stage.say(["La gare", " est", " là."])
    chunks = stage.stream()
    final = chunks[-1].final
    assert "".join(chunk.text for chunk in chunks) == "La gare est là."
    assert [chunk.final is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert final is not None
    assert (final.text, final.model, final.finish_reason) == ("La gare est là.", "contract", "stop")
    assert final.usage.completion_tokens == 3
    assert final.usage.prompt_tokens > 0


def test_complete_gives_the_same_reply_as_the_stream(stage: Stage) -> None:
    stage.say(["É", "t", "é 🎉"])
    stage.say(["É", "t", "é 🎉"])
    assert stage.model.complete(MESSAGES, OPTIONS) == stage.stream()[-1].final


def test_tools_are_asked_for(stage: Stage) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    function = {"name": "weather", "description": "Weather of a city.", "parameters": parameters}
    options = GenerationOptions(tools=({"type": "function", "function": function},))
    calls = [RequestedCall("call_1", "weather", '{"city": "Évry"}'), RequestedCall("call_2", "weather", "{}")]
    assert stage.model.supports_tools
    stage.call_tools(["Je regarde."], calls)
    final = stage.stream(options=options)[-1].final
    assert final is not None
    assert (final.text, list(final.tool_calls)) == ("Je regarde.", calls)
    stage.say(["Il pleut."])
    block = [
        PromptMessage("assistant", final.text, tool_calls=final.tool_calls),
        PromptMessage("tool", '{"rain": true}', tool_call_id="call_1"),
        PromptMessage("tool", '{"rain": true}', tool_call_id="call_2"),
    ]
    assert stage.stream([*MESSAGES, *block], options)[-1].final is not None


def test_an_empty_reply_is_a_reply(stage: Stage) -> None:
    stage.say([])
    [chunk] = stage.stream()
    assert chunk.final is not None
    assert chunk.final.text == ""


def test_the_model_of_the_options_wins_over_the_default(stage: Stage) -> None:
    stage.say(["Oui."])
    reply = stage.model.complete(MESSAGES, GenerationOptions(model="other"))
    assert stage.model.default_model == "contract"
    assert reply.model == "other"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_failure_raises_the_projects_error_while_streaming(stage: Stage, kind: type[LLMError]) -> None:
    stage.fail(kind)
    with pytest.raises(kind):
        stage.stream()


def test_closing_a_stream_early_ends_it_and_the_next_call_works(stage: Stage) -> None:
    stage.say(["mot "] * 500)
    stage.say(["Oui."])

    async def story() -> tuple[str, list[StreamChunk]]:
        async with aclosing(stage.model.stream(MESSAGES, OPTIONS)) as stream:
            first = await anext(stream)
        assert [chunk async for chunk in stream] == []
        rest = [chunk async for chunk in stage.model.stream(MESSAGES, OPTIONS)]
        return first.text, rest

    first, rest = stage.run(story)
    assert first.startswith("mot")
    assert rest[-1].final is not None


def test_warm_up_and_check_reach_nobody(stage: Stage) -> None:
    stage.model.warm_up()
    assert stage.model.check() == []
    assert stage.calls() == 0


def test_server_refuses_threads_that_the_real_one_refuses() -> None:
    call = RequestedCall("call_1", "weather", "{}")
    asked = PromptMessage("assistant", "", tool_calls=(call,))
    answered = PromptMessage("tool", "{}", tool_call_id="call_1")
    broken = [
        [*MESSAGES, asked],
        [*MESSAGES, answered],
        [*MESSAGES, asked, MESSAGES[1], answered],
        [*MESSAGES, asked, answered, answered],
        [*MESSAGES, PromptMessage("assistant", "", (RequestedCall("c", "weather", "{"),)), answered],
        [*MESSAGES, PromptMessage("assistant", "", (RequestedCall("c", "a b", "{}"),)), answered],
    ]
    with ModelServer() as server:
        model = OpenAILanguageModel(base_url=server.base_url, model="m", max_retries=0)
        for messages in broken:
            with pytest.raises(LLMResponseError):
                model.complete(messages, OPTIONS)
        assert [call.status for call in server.calls] == [400] * len(broken)


# The fake, and what every model inherits


def test_undeclared_calls_and_replies_that_nobody_asked_for_fail() -> None:
    llm = ScriptedLLM(["un"])
    with pytest.raises(AssertionError):
        llm.assert_exhausted()
    llm.complete(MESSAGES, OPTIONS)
    llm.assert_exhausted()
    with pytest.raises(AssertionError):
        llm.complete(MESSAGES, OPTIONS)
    with pytest.raises(AssertionError):
        llm.assert_exhausted()


@pytest.mark.parametrize(
    ("reply", "written"),
    [
        (ScriptedReply(pieces=["Un", " titre"]), "Un titre"),
        (ScriptedReply(pieces=["Un", " titre", " sans fin"] * 9), "Un titre sans fin"),
        (ScriptedReply(pieces=["Un"], error=LLMTimeoutError("slow")), None),
        (ScriptedReply(pieces=["Un"], interval=5), None),
    ],
)
def test_a_short_text_is_bounded_and_a_failure_is_none(reply: ScriptedReply, written: str | None) -> None:
    llm = ScriptedLLM([reply])
    got = asyncio.run(llm.write(MESSAGES, OPTIONS, seconds=0.5, characters=10))
    assert (got and got.text) == written
