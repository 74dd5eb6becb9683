"""The fake model fails loudly when the test and the program disagree about the calls."""

import asyncio

import pytest

from agents.errors import LLMTimeoutError
from agents.llm.base import GenerationOptions, PromptMessage
from tests.scripted import ScriptedLLM, ScriptedReply

pytestmark = pytest.mark.unit

MESSAGES = [PromptMessage(role="user", content="Bonjour")]
OPTIONS = GenerationOptions(max_tokens=9)


def test_an_undeclared_call_fails_at_once_and_at_the_end() -> None:
    llm = ScriptedLLM()
    with pytest.raises(AssertionError):
        llm.complete(MESSAGES, OPTIONS)
    with pytest.raises(AssertionError):
        llm.assert_exhausted()


def test_a_declared_reply_that_nobody_asked_for_fails_at_the_end() -> None:
    llm = ScriptedLLM(["un", "deux"])
    llm.complete(MESSAGES, OPTIONS)
    with pytest.raises(AssertionError):
        llm.assert_exhausted()
    llm.complete(MESSAGES, OPTIONS)
    llm.assert_exhausted()


def test_calls_keep_their_messages_and_options() -> None:
    llm = ScriptedLLM(["un"])
    llm.complete(MESSAGES, OPTIONS)
    assert llm.calls[0].messages == tuple(MESSAGES)
    assert llm.calls[0].options.max_tokens == 9


def test_an_error_may_come_after_some_pieces() -> None:
    llm = ScriptedLLM([ScriptedReply(pieces=["La ", "gare"], error=LLMTimeoutError())])
    got: list[str] = []

    async def read() -> None:
        async for chunk in llm.stream(MESSAGES, OPTIONS):
            got.append(chunk.text)

    with pytest.raises(LLMTimeoutError):
        asyncio.run(read())
    assert got == ["La ", "gare"]
    assert llm.abandoned == 0


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
