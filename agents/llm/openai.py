"""Any OpenAI-compatible server (OpenAI, Groq, Ollama, vLLM…).

A request is written here and decoded in `agents.llm.decoding`; `complete` sends it through `agents.llm.client`,
`stream` through `agents.llm.transport`. Tokens that arrive in one network chunk leave as one `StreamChunk`. An optional
argument that a server refuses by name is left out from then on.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks

from agents.errors import LLMError, LLMResponseError, LLMToolsRefusedError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply, StreamChunk, seen_text
from agents.llm.client import ReplyClient
from agents.llm.decoding import StreamDecoder, reply_from_completion
from agents.llm.server import ServerOptions, StatusError
from agents.llm.transport import ResponseBody, StreamTransport

#: How long the end of the body may come after the end of the reply, for the connection to be used again.
_DRAIN_SECONDS = 0.25
#: Optional arguments that some servers or models refuse, and what to send instead (`None`: nothing).
_ADAPTATIONS: Mapping[str, str | None] = {
    "stream_options": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
    "tools": None,
}
_TOOL_PLACE = re.compile(r"\btools[.\[](\d{1,3})\b")


class OpenAILanguageModel(LanguageModel):
    supports_tools: ClassVar[bool] = True

    def __init__(
        self, *, model: str = "", most_tools: int = 128, vision_models: Sequence[str] = (), **server: Any
    ) -> None:
        """`vision_models` are those that see images; `server` has the fields of `ServerOptions`."""
        self._model = model
        self._vision_models = frozenset(vision_models)
        self.most_tools = most_tools
        self._server = ServerOptions(**server)
        self._client = ReplyClient(self._server)
        self._transport = StreamTransport(self._server)
        #: By model: the arguments it refused, learnt once, then never sent again.
        self._refused: dict[str, frozenset[str]] = {}

    @property
    def default_model(self) -> str:
        return self._model

    def sees(self, model: str) -> bool:
        return (model or self._model) in self._vision_models

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        model = options.model or self._model
        refused = self._refused.get(model, frozenset())
        while True:
            request = self._request(messages, options, refused=refused)
            try:
                body = self._client.post("chat/completions", request)
                break
            except LLMResponseError as error:
                refused = refused | _newly_refused(error, request=request)
        self._refused[model] = refused
        return reply_from_completion(body, model=model)

    async def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        decoder = StreamDecoder(model=options.model or self._model)
        async with AsyncExitStack() as opened:
            body = await self._open_stream(opened, messages, options)
            has_begun = False
            try:
                while not decoder.is_done and (data := await body.read(gather=has_begun)):
                    if text := decoder.feed(data):
                        has_begun = True
                        yield StreamChunk(text=text)
            except LLMResponseError:
                # The reply was whole when the connection broke: only its usage may be missing.
                if not decoder.is_finished:
                    raise
            if decoder.is_done:
                await _drain(body)
            if text := decoder.close():
                yield StreamChunk(text=text)
            yield StreamChunk(final=decoder.reply())

    async def _open_stream(
        self, opened: AsyncExitStack, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> ResponseBody:
        """The body of a reply; `opened` closes it. An argument that the server refuses is left out from then on."""
        model = options.model or self._model
        refused = self._refused.get(model, frozenset())
        while True:
            request = self._request(messages, options, refused=refused, stream=True)
            try:
                body = await opened.enter_async_context(self._transport.post("chat/completions", request))
            except LLMResponseError as error:
                refused = refused | _newly_refused(error, request=request)
            else:
                self._refused[model] = refused
                return body

    def _request(
        self,
        messages: Sequence[PromptMessage],
        options: GenerationOptions,
        *,
        refused: frozenset[str],
        stream: bool = False,
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": options.model or self._model,
            "messages": [_wire_message(message) for message in messages],
            "temperature": options.temperature,
            "max_tokens": options.max_tokens,
        }
        if options.json_object:
            request["response_format"] = {"type": "json_object"}
        if options.tools:
            request["tools"] = list(options.tools)
        if stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        for name in refused & request.keys():
            value = request.pop(name)
            if (replacement := _ADAPTATIONS[name]) is not None:
                request[replacement] = value
        return request

    # Clients

    def warm_up(self) -> None:
        """Make the clients: of the process, and of the running event loop if there is one."""
        self._client.connect()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._transport.open_session()

    async def aclose(self) -> None:
        await self._transport.aclose()

    # Configuration

    def check(self) -> list[checks.CheckMessage]:
        found: list[checks.CheckMessage] = []
        if not self._server.api_key and not self._server.base_url:
            found.append(
                checks.Error(
                    "The language model has neither a key nor an address.",
                    hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server without a key.",
                    id="agents.E002",
                )
            )
        if not self._model:
            found.append(checks.Error("LLM_MODEL is blank.", id="agents.E003"))
        return found + self._address_messages() + self._bound_messages()

    def _address_messages(self) -> list[checks.CheckMessage]:
        if not self._server.base_url:
            return []
        try:
            address = urlsplit(self._server.base_url)
            host, _port = address.hostname, address.port
        except ValueError:
            host = None
        if not host or address.scheme not in {"http", "https"}:
            return [
                checks.Error(
                    "OPENAI_BASE_URL is not an address.",
                    hint="It looks like http://localhost:11434/v1.",
                    id="agents.E004",
                )
            ]
        loopback = host in {"localhost", "::1"} or host.startswith("127.")
        if address.scheme == "http" and self._server.api_key and not loopback:
            return [
                checks.Warning(
                    "The language model's key travels unencrypted: OPENAI_BASE_URL is http.", id="agents.W001"
                )
            ]
        return []

    def _bound_messages(self) -> list[checks.CheckMessage]:
        found: list[checks.CheckMessage] = []
        server = self._server
        if min(server.connect_timeout, server.read_timeout, server.max_connections) <= 0:
            found.append(
                checks.Error(
                    "LLM_CONNECT_TIMEOUT_SECONDS, LLM_READ_TIMEOUT_SECONDS and LLM_MAX_CONNECTIONS must be positive.",
                    id="agents.E005",
                )
            )
        if server.max_retries < 0:
            found.append(checks.Error("LLM_MAX_RETRIES is negative.", id="agents.E006"))
        if server.read_timeout > settings.TURN_TIMEOUT_SECONDS:
            found.append(
                checks.Warning(
                    "LLM_READ_TIMEOUT_SECONDS is longer than TURN_TIMEOUT_SECONDS and never reached.", id="agents.W002"
                )
            )
        return found


def _wire_message(message: PromptMessage) -> dict[str, Any]:
    content = seen_text(message.content)
    wire: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        wire["content"] = content or None
        wire["tool_calls"] = [call.as_json() for call in message.tool_calls]
    if message.images:
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in message.images]
        wire["content"] = [{"type": "text", "text": content}, *shown]
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
    return wire


async def _drain(body: ResponseBody) -> None:
    """Read the end of the body, so that its connection is used again; give up soon, the reply is whole."""
    if body.is_at_end:
        return
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await body.read():
                pass
    except (TimeoutError, LLMError):
        return


def _newly_refused(error: LLMResponseError, *, request: Mapping[str, Any]) -> frozenset[str]:
    """The optional arguments that a 400 refuses by name; raises `error` again when there is none."""
    cause = error.__cause__
    if not isinstance(cause, StatusError) or cause.status not in {400, 413, 422}:
        raise error
    said = cause.said
    unsupported = "unsupported" in said.lower() or "not support" in said.lower()
    refused = {
        name
        for name in _ADAPTATIONS.keys() & request.keys()
        # "max_tokens is too large" is about the value, and is the caller's affair.
        if name in said and (unsupported or name == "stream_options")
    }
    offered = [tool["function"]["name"] for tool in request.get("tools", ())]
    named = tuple(_tools_named(said, offered))
    # One tool's schema that is not supported is no reason to offer none any more.
    if refused and not named:
        return frozenset(refused)
    if not offered:
        raise error
    # Groq says with this code that what the model wrote is wrong; a refusal that repeats the request names every tool.
    if "tool_use_failed" in said or len(named) == len(offered) > 1:
        named = ()
    raise LLMToolsRefusedError(str(error), named) from error


def _tools_named(said: str, names: Sequence[str]) -> Iterator[str]:
    """The tools that a refusal names, or counts (`tools[3].function`, `tools.3.custom`)."""
    places = {int(place) for place in _TOOL_PLACE.findall(said)}
    for place, name in enumerate(names):
        if place in places or re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said):
            yield name
