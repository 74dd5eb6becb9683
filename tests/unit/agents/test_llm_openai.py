"""What only a network does to the OpenAI backend: cuts, splits, silence, retries, refusals, disconnections, secrets."""

import asyncio
import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import httpx2
import openai
import pytest
from django.test import override_settings

from agents.errors import (
    LLMContextError,
    LLMCutError,
    LLMError,
    LLMKeyRefusedError,
    LLMModelUnknownError,
    LLMQuotaError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
    LLMToolsRefusedError,
    LLMUnavailableError,
)
from agents.llm.base import GenerationOptions, PromptMessage, Reply, StreamChunk, check_language_model
from agents.llm.openai import OpenAILanguageModel, translated_errors
from tests.servers.model_server import ModelReply, ModelServer

pytestmark = pytest.mark.unit

MESSAGES = [PromptMessage(role="user", content="Réponds en json : mon code est SECRET-PROMPT.")]
TOKENS = ["L’é", "té", " 🎉", " – ", "naïf", "."]
TEXT = "".join(TOKENS)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def model_of(server: ModelServer, **options: Any) -> OpenAILanguageModel:
    given = {"model": "unit", "read_timeout": 60.0, "max_retries": 0, **options}
    return OpenAILanguageModel(base_url=server.base_url, **given)


def streamed(model: OpenAILanguageModel, options: GenerationOptions | None = None) -> list[StreamChunk]:
    async def read() -> list[StreamChunk]:
        try:
            stream = model.stream(MESSAGES, options or GenerationOptions())
            return [chunk async for chunk in stream]
        finally:
            await model.aclose()

    return asyncio.run(read())


def final(chunks: list[StreamChunk]) -> Reply:
    assert chunks[-1].final is not None
    return chunks[-1].final


# Decoding


def test_comments_are_skipped_and_a_finish_reason_is_enough_without_done(server: ModelServer) -> None:
    server.script(ModelReply(tokens=TOKENS, keep_alive_comments=True, finish_reason="length", send_done=False))
    reply = final(streamed(model_of(server)))
    assert (reply.text, reply.finish_reason) == (TEXT, "length")


# Reading under load


def test_many_streams_gather_their_tokens_and_lose_none(server: ModelServer) -> None:
    streams, tokens = 8, [f"{rank} " for rank in range(60)]
    server.script(*(ModelReply(tokens=tokens, interval=0.002) for _ in range(streams)))

    async def read(model: OpenAILanguageModel) -> list[str]:
        stream = model.stream(MESSAGES, GenerationOptions())
        return [chunk.text async for chunk in stream if chunk.final is None]

    async def read_all() -> list[list[str]]:
        model = model_of(server, read_pause=0.02)
        try:
            return await asyncio.gather(*(read(model) for _ in range(streams)))
        finally:
            await model.aclose()

    for pieces in asyncio.run(read_all()):
        assert "".join(pieces) == "".join(tokens)
        assert len(pieces) < len(tokens) / 2


def test_the_first_text_is_handed_on_at_once(server: ModelServer) -> None:
    server.script(ModelReply(tokens=["", *TOKENS], interval=0.001))
    stream = model_of(server, read_pause=60.0).stream(MESSAGES, GenerationOptions())
    first = asyncio.run(asyncio.wait_for(anext(stream), 5))
    assert first.text
    assert first.final is None


# Faults


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ModelReply(tokens=TOKENS, cut_after=0), LLMResponseError),
        (ModelReply(tokens=TOKENS, end_after=0), LLMResponseError),
        (ModelReply(tokens=TOKENS, malformed_after=3), LLMResponseError),
        (ModelReply(tokens=TOKENS, error_after=3, error_code="400"), LLMResponseError),
        (ModelReply(status=400), LLMResponseError),
        (ModelReply(tokens=TOKENS, error_after=2), LLMUnavailableError),
        (ModelReply(tokens=TOKENS, error_after=0, error_code="rate_limit_exceeded"), LLMUnavailableError),
        (ModelReply(status=503), LLMUnavailableError),
    ],
)
def test_a_fault_is_unusable_or_passing(server: ModelServer, fault: ModelReply, kind: type[LLMError]) -> None:
    server.script(fault)
    with pytest.raises(kind) as caught:
        streamed(model_of(server))
    assert caught.value.retryable or kind is LLMResponseError


@pytest.mark.parametrize(
    "fault", [ModelReply(tokens=TOKENS, hang_after=0), ModelReply(tokens=TOKENS, hang_after=3), ModelReply(status=504)]
)
def test_a_server_that_falls_silent_is_a_timeout(server: ModelServer, fault: ModelReply) -> None:
    server.script(fault)
    with pytest.raises(LLMTimeoutError):
        streamed(model_of(server, read_timeout=0.2, max_retries=2))
    assert fault.status == 504 or server.wait_for_disconnects(1)
    assert len(server.calls) == 1


def test_a_server_that_nobody_runs_is_unavailable() -> None:
    with ModelServer() as stopped:
        model = model_of(stopped)
    with pytest.raises(LLMUnavailableError) as caught:
        streamed(model)
    assert caught.value.__cause__ is not None


# Retries and refusals


def test_a_rate_limited_call_is_tried_again_and_counted(server: ModelServer) -> None:
    server.script(ModelReply(status=429, retry_after=0.05), ModelReply(tokens=TOKENS))
    assert final(streamed(model_of(server, max_retries=2))).text == TEXT
    assert [call.status for call in server.calls] == [429, 200]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ModelReply(status=401, error_code="invalid_api_key"), LLMKeyRefusedError),
        (ModelReply(status=403), LLMKeyRefusedError),
        (ModelReply(status=402), LLMQuotaError),
        (ModelReply(status=404, error_code="model_not_found"), LLMModelUnknownError),
        (ModelReply(status=429, error_code="insufficient_quota", retry_after=0), LLMQuotaError),
        (ModelReply(tokens=TOKENS, error_after=0, error_code="insufficient_quota"), LLMQuotaError),
    ],
)
def test_what_staff_have_to_see_to_is_said_and_not_tried_again(
    server: ModelServer, fault: ModelReply, kind: type[LLMError]
) -> None:
    server.script(fault)
    with pytest.raises(kind) as caught:
        streamed(model_of(server, max_retries=2))
    assert not caught.value.retryable
    assert not {"inexploitable", "réessayez"} & set(str(caught.value.public_message).lower().split())
    assert len(server.calls) == 1
    named = ("« unit »" in str(caught.value.public_message), "'unit'" in str(caught.value))
    assert named == (kind is LLMModelUnknownError,) * 2


def test_a_busy_server_says_how_long_to_wait(server: ModelServer) -> None:
    server.script(ModelReply(status=429, retry_after=3600))
    with pytest.raises(LLMRateLimitedError) as caught:
        streamed(model_of(server, max_retries=2))
    assert (caught.value.retry_after, len(server.calls)) == (3600, 1), "an hour is not waited for"


@pytest.mark.parametrize(
    "fault", [ModelReply(tokens=TOKENS, cut_after=3, interval=0.005), ModelReply(tokens=TOKENS, end_after=3)]
)
def test_a_cut_stream_gives_its_text_says_that_asking_again_may_help_and_does_not(
    server: ModelServer, fault: ModelReply
) -> None:
    server.script(fault)
    got: list[str] = []

    async def read() -> None:
        async for chunk in model_of(server, max_retries=3).stream(MESSAGES, GenerationOptions()):
            got.append(chunk.text)

    with pytest.raises(LLMCutError) as caught:
        asyncio.run(read())
    assert "".join(got) == "".join(TOKENS[:3])
    assert caught.value.retryable
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("refused", "sent_instead"), [("max_tokens", "max_completion_tokens"), ("temperature", None), ("tools", None)]
)
def test_a_refused_optional_argument_is_left_out_once_and_for_all(refused: str, sent_instead: str | None) -> None:
    function = {"name": "weather", "parameters": {"type": "object"}}
    options = GenerationOptions(tools=({"type": "function", "function": function},))
    with ModelServer(refused=[refused]) as server:
        model = model_of(server)
        assert final(streamed(model, options)).text == final(streamed(model, options)).text != ""
        assert [call.status for call in server.calls] == [400, 200, 200]
        assert refused not in server.calls[2].body
        assert sent_instead is None or server.calls[2].body[sent_instead] == 1024


def test_a_server_without_stream_options_is_asked_without_them(server: ModelServer) -> None:
    """As Mistral's API refuses them: with 422, and in the words of its checks."""
    said = "body.stream_options.include_usage: Extra inputs are not permitted"
    server.script(ModelReply(status=422, error_message=said))
    model = model_of(server)
    assert final(streamed(model)).text == final(streamed(model)).text != ""
    assert ["stream_options" in call.body for call in server.calls] == [True, False, False]


def test_what_one_model_refuses_another_still_gets(server: ModelServer) -> None:
    model = model_of(server)
    model._refused["unit"] = frozenset({"temperature"})
    streamed(model, GenerationOptions(model="other"))
    assert "temperature" in server.calls[0].body


def test_a_refusal_of_the_value_is_not_worked_around(server: ModelServer) -> None:
    server.script(ModelReply(status=400, error_message="max_tokens is too large: 1024."))
    with pytest.raises(LLMResponseError):
        streamed(model_of(server))
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("Invalid schema for function 'search'.", None),
        ("tool call validation failed: parameters for tool search", "tool_use_failed"),
        ("field required, input: {'tools': [{'search'}, {'weather'}]}", None),
    ],
)
def test_tools_are_refused_where_a_refusal_is_about_them(server: ModelServer, said: str, code: str | None) -> None:
    tools = tuple(
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("search", "weather")
    )
    server.script(ModelReply(status=400, error_message=said, error_code=code))
    with pytest.raises(LLMToolsRefusedError):
        streamed(model_of(server), GenerationOptions(tools=tools))


def test_a_json_object_is_asked_for_as_the_wire_wants_it(server: ModelServer) -> None:
    server.script(ModelReply(tokens=['{"a": 1}']))
    options = GenerationOptions(json_object=True, temperature=0.0, max_tokens=7)
    reply = model_of(server).complete(MESSAGES, options)
    assert json.loads(reply.text) == {"a": 1}
    assert server.calls[0].body["response_format"] == {"type": "json_object"}
    assert server.calls[0].body["max_tokens"] == 7


# Connections


def test_closing_the_stream_disconnects_from_the_server(server: ModelServer) -> None:
    server.script(ModelReply(tokens=["mot "] * 1000, interval=0.005))
    model = model_of(server)

    async def read_one() -> bool:
        async with aclosing(model.stream(MESSAGES, GenerationOptions())) as stream:
            await anext(stream)
        return await asyncio.to_thread(server.wait_for_disconnects, 1)

    assert asyncio.run(read_one())


def test_cancelling_before_the_first_token_disconnects_from_the_server(server: ModelServer) -> None:
    server.script(ModelReply(tokens=TOKENS, delay=30))
    model = model_of(server, read_timeout=60.0)

    async def cancelled() -> bool:
        stream = model.stream(MESSAGES, GenerationOptions())
        task = asyncio.ensure_future(anext(stream))
        assert await asyncio.to_thread(server.wait_for_calls, 1)
        task.cancel()
        await asyncio.wait([task])
        return await asyncio.to_thread(server.wait_for_disconnects, 1)

    assert asyncio.run(cancelled())


def test_finished_streams_leave_their_connection_to_the_next(server: ModelServer) -> None:
    model = model_of(server)

    async def five_in_a_row() -> None:
        for _ in range(5):
            async for _chunk in model.stream(MESSAGES, GenerationOptions()):
                pass

    asyncio.run(five_in_a_row())
    assert len(server.calls) == 5
    assert server.accepted == 1
    assert server.disconnects == 0


# Secrets


def test_neither_prompt_nor_key_reaches_logs_or_tracebacks(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    prompt, key = MESSAGES[0].content, "sk-" + "abc" * 5
    echoed = f"You sent {prompt} with key {key}."
    server.script(ModelReply(status=400, error_message=echoed, error_code=echoed))
    with pytest.raises(LLMResponseError) as caught:
        streamed(model_of(server, api_key=key))
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "400" in str(caught.value)
    assert prompt not in shown
    assert key not in shown


# Configuration


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"api_key": "k", "model": "m"}, []),
        ({"base_url": "http://localhost:11434/v1", "model": "m"}, []),
        ({"api_key": "k"}, ["agents.E003"]),
        ({"base_url": "localhost:11434", "model": "m"}, ["agents.E004"]),
        ({"base_url": "http://[::1", "model": "m"}, ["agents.E004"]),
        ({"api_key": "k", "base_url": "http://10.0.0.1/v1", "model": "m"}, ["agents.W001"]),
    ],
)
def test_check_names_what_is_wrong(options: dict[str, Any], found: list[str]) -> None:
    assert [message.id for message in OpenAILanguageModel(**options).check()] == found


OPENAI = "agents.llm.openai.OpenAILanguageModel"


@pytest.mark.parametrize(
    ("llms", "found"),
    [
        ({}, []),
        ({"default": {"BACKEND": "tests.scripted.ScriptedLLM"}}, []),
        ({"default": {"BACKEND": OPENAI, "OPTIONS": {"api_key": "k", "model": "m"}}}, []),
        ({"default": {"BACKEND": OPENAI}}, ["agents.E003"]),
        ({"default": {"BACKEND": "nowhere.Model"}}, ["agents.E001"]),
        ({"default": {}}, ["agents.E001"]),
        ({"default": {"BACKEND": OPENAI, "OPTIONS": {"colour": "red"}}}, ["agents.E001"]),
        ({"default": {"BACKEND": "agents.cache.TtlCache"}}, ["agents.E001"]),
    ],
)
def test_a_wrong_setting_is_one_clear_message(llms: dict[str, Any], found: list[str]) -> None:
    with override_settings(LLMS=llms):
        assert [message.id for message in check_language_model()] == found


# What a model reads

TPM = "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000, reduce the length."


@pytest.mark.parametrize(
    ("status", "said", "code", "expected", "window"),
    [
        (400, "`temperature` must be <= 1", "invalid", LLMResponseError, None),
        (400, "top_logprobs must be <= 20", "invalid", LLMResponseError, None),
        (500, "input size mismatch", "internal", LLMUnavailableError, None),
        (413, TPM, "rate_limit_exceeded", LLMRateLimitedError, None),
        (413, "Payload Too Large", "", LLMContextError, None),
        (
            400,
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "",
            LLMContextError,
            32768,
        ),
        (400, '{"type": "exceed_context_size_error", "n_ctx": 4096}', "", LLMContextError, 4096),
        (400, "This model's maximum context length is 8192 tokens.", "", LLMContextError, 8192),
    ],
)
def test_only_words_about_length_mean_a_prompt_too_long(
    status: int, said: str, code: str, expected: type[LLMError], window: int | None
) -> None:
    request = httpx2.Request("POST", "http://localhost/v1", json={"model": "unit"})
    response = httpx2.Response(status, json={"error": {"message": said, "code": code}}, request=request)
    with pytest.raises(LLMError) as raised, translated_errors():
        raise openai.APIStatusError("refused", response=response, body=None)
    assert type(raised.value) is expected
    assert getattr(raised.value, "window", None) == window


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        (_answer(b'{"default_generation_settings": {"n_ctx": 4096}}'), 4096),
        (b"rubbish\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", None),
        (b"", None),
    ],
)
def test_window_is_what_the_server_says_or_unknown(answer: bytes, window: int | None) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def ask() -> int | None:
        async with await asyncio.start_server(respond, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            model = OpenAILanguageModel(model="unit", base_url=f"http://127.0.0.1:{port}/v1")
            try:
                return await model.window("")
            finally:
                await model.aclose()

    assert asyncio.run(ask()) == window
