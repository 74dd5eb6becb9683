"""Any OpenAI-compatible server (OpenAI, Groq, Mistral, Ollama, vLLM, llama.cpp), through the `openai` package.

The package connects, tries again before the first byte, and bounds every wait. Streams are decoded here: servers are
odder than the package's types, and an object for each token costs several times the rest (`benchmarks/streaming`).
An optional argument that a model refuses by name is left out from then on.
"""

import asyncio
import json
import re
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.core import checks

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
from agents.llm.base import (
    GenerationOptions,
    LanguageModel,
    PromptMessage,
    Reply,
    RequestedCall,
    StreamChunk,
    Usage,
    seen_text,
)
from agents.llm.reasoning import ReasoningFilter, parts_of
from agents.texts import storable

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, OpenAI

    AnyClient = TypeVar("AnyClient", OpenAI, AsyncOpenAI)

_OPENAI = "https://api.openai.com/v1"
#: Servers without authentication still need a key that is not blank.
_NO_KEY = "none"
#: Connections of one client at most.
_MAX_CONNECTIONS = 600
_CONNECT_SECONDS = 5.0
#: An idle connection is kept as long as a reader thinks.
_KEEP_ALIVE_SECONDS = 30.0
#: A compressed stream would be held back until a block is full.
_UNCOMPRESSED = {"Accept-Encoding": "identity"}
#: How long the end of the body may come after the end of the reply, for the connection to be used again.
_DRAIN_SECONDS = 0.25
#: Optional arguments that some servers or models refuse, and what to send instead (`None`: nothing).
_ADAPTATIONS: Mapping[str, str | None] = {
    "stream_options": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
    "tools": None,
}
#: By the code or the type of a refusal; a rate limit has others.
_USED_UP = re.compile(r"insufficient.?(?:quota|balance|credit|funds)|billing|payment.?required", re.I)
_RATE_LIMIT = re.compile(r"rate.?limit", re.I)
_TRANSIENT = re.compile(r"server.?error|overload|unavailable|timeout|capacity", re.I)
#: A server or a gateway in front of it that waited too long.
_TIMED_OUT = frozenset({408, 504, 524})
#: How servers call what their model reads; how long what they said stands, and how long it is waited for.
_WINDOW_NAMES = ("max_model_len", "context_window", "max_context_length")
_WINDOW_SECONDS, _WINDOW_WAIT_SECONDS = 300.0, 2.0
_OLLAMA_TOKENS = 4_096
#: A prompt that is too long, in the words of OpenAI, vLLM, llama.cpp, Groq and Mistral, and how much fits.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:length|window|size)|too large for model|reduce the length",
    re.IGNORECASE,
)
_FITS = re.compile(
    r"n_ctx\W+(?P<n_ctx>\d+)|(?P<most>\d{3,7}) maximum|context (?:length|window|size)[^\d\"{}]{1,40}?(?P<length>\d{3,7})"
)
#: What a model that reasons gets on top of the limit of its text.
REASONING_TOKENS = 1_024
#: One event holds one token; a larger one is no event of this protocol.
_MAX_EVENT_BYTES = 1024 * 1024


class Clients:
    """The clients of one server, for all threads and for each event loop; `read_timeout`: seconds of silence."""

    def __init__(
        self, *, api_key: str = "", base_url: str = "", read_timeout: float = 60.0, max_retries: int = 2
    ) -> None:
        self.api_key = api_key
        self.base_url = base_url
        self._read_timeout = read_timeout
        self._max_retries = max_retries
        self._streaming: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = weakref.WeakKeyDictionary()

    @cached_property
    def blocking(self) -> "OpenAI":
        import httpx2
        from openai import APITimeoutError, DefaultHttpxClient, OpenAI

        class Client(DefaultHttpxClient):
            def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
                try:
                    return _without_useless_tries(super().send(request, **options))
                except httpx2.ReadTimeout as error:
                    # The package does not try its own errors again: the server still works on this prompt.
                    raise APITimeoutError(request) from error

        return self._client(OpenAI, Client)

    async def streaming(self) -> "AsyncOpenAI":
        """The client of the running event loop. Importing the package and loading certificates take half a second."""
        loop = asyncio.get_running_loop()
        client = self._streaming.get(loop)
        if client is None:
            client = self._streaming.setdefault(loop, await asyncio.to_thread(self._new_streaming))
        return client

    def _new_streaming(self) -> "AsyncOpenAI":
        import httpx2
        from openai import APITimeoutError, AsyncOpenAI, DefaultAioHttpClient

        class Client(DefaultAioHttpClient):
            async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
                try:
                    response = await super().send(request, **options)
                    if response.status_code == 429:
                        await response.aread()
                    return _without_useless_tries(response)
                except httpx2.ReadTimeout as error:
                    raise APITimeoutError(request) from error

        client = self._client(AsyncOpenAI, Client)
        _ = client.chat.completions.with_streaming_response  # imports the rest of the package
        return client

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        if (client := self._streaming.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()

    def _client(self, package: "Callable[..., AnyClient]", http: Callable[..., Any]) -> "AnyClient":
        import httpx2

        return package(
            api_key=self.api_key or _NO_KEY,
            base_url=self.base_url or _OPENAI,
            max_retries=self._max_retries,
            http_client=http(
                timeout=httpx2.Timeout(self._read_timeout, connect=_CONNECT_SECONDS),
                limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_SECONDS),
            ),
        )


def _without_useless_tries(response: "httpx2.Response") -> "httpx2.Response":
    """Tell the package, which tries every 429 and 5xx again, that a used-up credit does not come back in a second, and
    that a gateway gave up a model that is still busy."""
    is_used_up = response.status_code == 429 and _USED_UP.search(_codes(_json_of(response.read())))
    if is_used_up or response.status_code in _TIMED_OUT:
        response.headers["x-should-retry"] = "false"
    return response


@contextmanager
def translated_errors(*, during_body: bool = False) -> Iterator[None]:
    """Raise this project's errors instead of the package's, unchained: a server's words may hold the prompt."""
    import aiohttp
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise _refusal(error) from None
    except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError) as error:
        if _has_timed_out(error):
            raise LLMTimeoutError("The server did not answer in time.") from error
        if during_body:
            raise LLMCutError(f"The response was cut ({type(error).__name__}).") from error
        raise LLMUnavailableError("The server cannot be reached.") from error


def _has_timed_out(error: BaseException | None) -> bool:
    """Whether a timeout is at the root; the package calls a connection that was refused or reset a timeout as well."""
    while error is not None:
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refusal(error: Any) -> LLMError:
    """The error of a status that is not a success; `refusal` is for finding what was refused."""
    headers, text, status = error.response.headers, error.response.text, error.status_code
    request_id = headers.get("x-request-id", "")
    request = f", request {_short_code(request_id)}" if request_id else ""
    found = _error(f"The server answered HTTP {status}{request}", _json_of(error.response.content), text, status)
    if status == 404 and "tool" not in text:  # which is what OpenRouter has no model for
        return LLMModelUnknownError.named(json.loads(error.request.content)["model"], str(found))
    if isinstance(found, LLMResponseError):
        found.refusal = text
    found.retry_after = _seconds(headers.get("retry-after"))
    return found


def _error(what: str, told: Mapping[str, Any], text: str, status: int | None) -> LLMError:
    """The error of a refusal, or of one that a response of 200 announced (no status): its codes only are said."""
    detail = f"{what} (type {_short_code(told.get('type'))}, code {_short_code(told.get('code'))})."
    codes = _codes(told)
    # Groq answers 413 to what is over its tokens per minute, which says nothing about the model.
    is_rate_limited = _RATE_LIMIT.search(codes)
    is_too_long = status == 413 or (status in (None, 400, 422, 500) and _TOO_LONG.search(text))
    if is_too_long and not is_rate_limited:
        context_error = LLMContextError(detail)
        found = _FITS.search(text)
        context_error.window = int(found[found.lastgroup or 0]) if found else None
        return context_error
    if status == 402 or (status in {None, 400, 403, 429} and _USED_UP.search(codes)):
        return LLMQuotaError(detail)
    if status in {401, 403}:
        return LLMKeyRefusedError(detail)
    if status in _TIMED_OUT:
        return LLMTimeoutError(detail)
    if status == 429 or (status in {None, 400, 413} and is_rate_limited):
        return LLMRateLimitedError(detail)
    if status in {409, 425} or (status or 0) >= 500 or (status is None and _TRANSIENT.search(codes)):
        return LLMUnavailableError(detail)
    return LLMResponseError(detail)


def _json_of(body: bytes) -> Mapping[str, Any]:
    """The `error` of a refusal; empty where there is none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _codes(error: Mapping[str, Any]) -> str:
    return f"{error.get('code')} {error.get('type')}"


def _short_code(value: object) -> str:
    """A machine-readable code as it is; anything that could be a sentence is left out."""
    return code if re.fullmatch(r"[\w.\-]{1,60}", code := str(value)) else "unreadable"


def _seconds(said: str | None) -> float | None:
    """A `Retry-After`; a date (no server of this protocol sends one) counts as nothing."""
    try:
        return max(0.0, float(said or ""))
    except ValueError:
        return None


class OpenAILanguageModel(LanguageModel):
    supports_tools: ClassVar[bool] = True

    def __init__(self, *, model: str = "", most_tools: int = 128, read_pause: float = 0.0, **server: Any) -> None:
        """`read_pause`: how long the tokens of a reply gather after its first ones; `server`: as `Clients` has it."""
        self.default_model = model
        self.most_tools = most_tools
        self._read_pause = read_pause
        self._clients = Clients(**server)
        #: By model: the arguments it refused, learnt once, then never sent again.
        self._refused: dict[str, frozenset[str]] = {}
        #: By model: what its server said that it reads, and when.
        self._windows: dict[str, tuple[float, int | None]] = {}
        #: Models that were seen to reason, and those of them whose template opens the reasoning.
        self._reasoning: set[str] = set()
        self._closing: set[str] = set()

    async def window(self, model: str) -> int | None:
        """Asked of the server once in `_WINDOW_SECONDS`."""
        name = model or self.default_model
        asked_at, known = self._windows.get(name, (-_WINDOW_SECONDS, None))
        if self._clients.base_url and time.monotonic() - asked_at >= _WINDOW_SECONDS:
            client = await self._clients.streaming()
            with suppress(TimeoutError):
                async with asyncio.timeout(_WINDOW_WAIT_SECONDS):
                    known = await _asked_window(client, name)
            self._windows[name] = (time.monotonic(), known)
        return known

    def _needs_room(self, decoder: "StreamDecoder", model: str) -> bool:
        """Note whether the model reasons; true where reasoning used up a limit without room: ask once more."""
        reply, knew = decoder.reply(), model in self._reasoning
        if reply.reasoning:
            self._reasoning.add(model)
        (self._closing.add if decoder.filter.closes_alone else self._closing.discard)(model)
        is_empty = not reply.text.strip() and not reply.tool_calls
        return is_empty and bool(reply.reasoning) and reply.finish_reason == "length" and not knew

    async def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        model = options.model or self.default_model
        while True:
            decoder = StreamDecoder(model=model, awaits_close=model in self._closing)
            async with AsyncExitStack() as opened:
                body = await self._open_stream(opened, messages, options)
                try:
                    with translated_errors(during_body=True):
                        async for data in body:
                            if chunk := decoder.chunk(decoder.feed(data)):
                                yield chunk
                                # What a token costs is mostly waking up for it: the next ones are read together.
                                await asyncio.sleep(self._read_pause)
                            if decoder.is_done:
                                await _drain(body)
                                break
                except LLMResponseError:
                    # The reply was whole when the connection broke: only its usage may be missing.
                    if not decoder.is_finished:
                        raise
            if chunk := decoder.chunk(decoder.close()):
                yield chunk
            if not self._needs_room(decoder, model):
                break
        yield StreamChunk(final=decoder.reply())

    async def _open_stream(
        self, opened: AsyncExitStack, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncIterator[bytes]:
        """The body of a reply; `opened` closes it, so that the server stops."""
        model = options.model or self.default_model
        refused = self._refused.get(model, frozenset())
        client = await self._clients.streaming()
        while True:
            request = self._request(messages, options, refused)
            try:
                with translated_errors():
                    asked = client.chat.completions.with_streaming_response.create(
                        **request, extra_headers=_UNCOMPRESSED
                    )
                    response = await opened.enter_async_context(asked)
            except LLMResponseError as error:
                refused |= _newly_refused(error, request=request)
            else:
                self._refused[model] = refused
                return await opened.enter_async_context(aclosing(response.iter_bytes()))

    def _request(
        self, messages: Sequence[PromptMessage], options: GenerationOptions, refused: frozenset[str]
    ) -> dict[str, Any]:
        model = options.model or self.default_model
        request: dict[str, Any] = {
            "model": model,
            "messages": [_wire_message(message) for message in messages],
            "temperature": options.temperature,
            "max_tokens": options.max_tokens + (REASONING_TOKENS if model in self._reasoning else 0),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if options.json_object:
            request["response_format"] = {"type": "json_object"}
        if options.tools:
            request["tools"] = list(options.tools)
        for name in refused & request.keys():
            value = request.pop(name)
            if (replacement := _ADAPTATIONS[name]) is not None:
                request[replacement] = value
        return request

    def warm_up(self) -> None:
        self._clients._new_streaming()

    async def aclose(self) -> None:
        await self._clients.aclose()

    def check(self) -> list[checks.CheckMessage]:
        server = self._clients
        found: list[checks.CheckMessage] = []
        if not self.default_model:
            found.append(checks.Error("LLM_MODEL is blank.", id="agents.E003"))
        address = re.match(r"(https?)://(\[[\da-fA-F:.]+\]|[^\s/:@\[\]]+)(:\d+)?(/|$)", server.base_url or _OPENAI)
        if address is None:
            hint = "It looks like http://localhost:11434/v1."
            found.append(checks.Error("OPENAI_BASE_URL is not an address.", hint=hint, id="agents.E004"))
        elif address[1] == "http" and server.api_key and not re.match(r"localhost$|127\.|\[::1\]", address[2]):
            said = "The language model's key travels unencrypted: OPENAI_BASE_URL is http."
            found.append(checks.Warning(said, id="agents.W001"))
        return found


async def _asked_window(client: "AsyncOpenAI", model: str) -> int | None:
    """The window by llama.cpp's properties, Ollama's description of a model, or anybody's list of models."""
    listed = f"{str(client.base_url).rstrip('/')}/models"
    root = listed.removesuffix("/models").removesuffix("/v1")
    for method, address in (("GET", f"{root}/props"), ("POST", f"{root}/api/show"), ("GET", listed)):
        try:
            with translated_errors():
                body = {"model": model} if method == "POST" else None
                response = await client._client.request(method, address, json=body, headers=client.auth_headers)
            said = response.json() if response.status_code == 200 else None
        except (LLMError, ValueError):
            continue
        if isinstance(said, dict) and (found := _window_said(said, model)):
            return found
    return None


def _window_said(said: Mapping[str, Any], model: str) -> int | None:
    if isinstance(settings := said.get("default_generation_settings"), dict):
        return _whole(settings.get("n_ctx"))
    if isinstance(said.get("model_info"), dict):
        # What a server of Ollama gives a model, unless its file says more, whatever the model could read.
        most = [value for key, value in said["model_info"].items() if str(key).endswith(".context_length")]
        given = re.search(r"^num_ctx\s+(\d+)", str(said.get("parameters")), re.MULTILINE)
        return min([int(given[1]) if given else _OLLAMA_TOKENS, *filter(None, map(_whole, most))])
    rows = said.get("data") if isinstance(said.get("data"), list) else []
    named = [each for each in rows or () if isinstance(each, dict) and each.get("id") == model]
    return next((found for each in named for name in _WINDOW_NAMES if (found := _whole(each.get(name)))), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _wire_message(message: PromptMessage) -> dict[str, Any]:
    content = seen_text(message.content)
    wire: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        wire["content"] = content or None
        wire["tool_calls"] = [call.as_json() for call in message.tool_calls]
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
    return wire


async def _drain(body: AsyncIterator[bytes]) -> None:
    """Read the end of the body, so that its connection is used again; give up soon, the reply is whole."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _data in body:
                pass


def _newly_refused(error: LLMResponseError, *, request: Mapping[str, Any]) -> frozenset[str]:
    """The optional arguments that a refusal names; raises `error` again where there is none."""
    said = error.refusal
    if not said:
        raise error
    # "max_tokens is too large" is about the value, and is the caller's affair.
    is_unsupported = "unsupported" in said.lower() or "not support" in said.lower()
    refused = {name for name in _ADAPTATIONS.keys() & request.keys() if is_unsupported and name in said}
    # Its value never changes: whatever is said of it (Mistral: "Extra inputs are not permitted"), it is not wanted.
    if "stream_options" in request and "stream_options" in said:
        refused.add("stream_options")
    offered = [tool["function"]["name"] for tool in request.get("tools", ())]
    is_about_a_tool = any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said) for name in offered)
    # One tool's schema that is not supported is no reason to offer none any more.
    if refused and not is_about_a_tool:
        return frozenset(refused)
    if not offered:
        raise error
    raise LLMToolsRefusedError(str(error)) from error


class StreamDecoder:
    """Server-sent events, cut anywhere, to joined text; `reply()` once the body has ended."""

    def __init__(self, *, model: str, awaits_close: bool = False) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self.filter = ReasoningFilter(awaits_close=awaits_close)
        self._told_reasoning = False
        self._model = model
        self._usage = Usage()
        self._finish_reason = ""
        self._calls = _CallAssembler()
        self.is_done = False

    @property
    def is_finished(self) -> bool:
        """Whether all the text of the reply has come."""
        return self.is_done or bool(self._finish_reason)

    def feed(self, data: bytes) -> str:
        """Decode what `data` completes; the text of all its tokens, joined."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _MAX_EVENT_BYTES:
            raise LLMResponseError("The server sent an oversized event.")
        text = "".join(map(self._line, lines))
        return self.filter.feed(storable(text)) if text else ""

    def chunk(self, text: str) -> StreamChunk | None:
        """What a reader is sent of the text that was just decoded, and told of the reasoning before it."""
        starts_over, self.filter.starts_over = self.filter.starts_over, False
        is_reasoning = not text and self.filter.is_reasoning and not self._told_reasoning
        self._told_reasoning |= is_reasoning
        if text or starts_over or is_reasoning:
            return StreamChunk(text, is_reasoning=is_reasoning, starts_over=starts_over)
        return None

    def close(self) -> str:
        """Decode a last event that the body ended without terminating, and what was held back."""
        text = self._line(self._buffer) + self._line(b"")
        self._buffer = b""
        return self.filter.feed(storable(text)) + self.filter.flush(is_cut=self._finish_reason == "length")

    def reply(self) -> Reply:
        if not self.is_finished:
            raise LLMCutError("The stream was cut before the end of the reply.")
        return Reply(
            text=self.filter.text,
            reasoning=self.filter.reasoning,
            model=self._model,
            usage=self._usage,
            finish_reason=self._finish_reason or "stop",
            tool_calls=self._calls.calls(),
        )

    def _line(self, line: bytes) -> str:
        if line.startswith(b"data:"):
            self._data.append(line)
        elif self._data and not line.strip(b"\r"):
            payload = b"\n".join(part[5:].strip() for part in self._data)
            self._data.clear()
            self.is_done |= payload == b"[DONE]"
            if payload and not self.is_done:
                return self._said(_decoded(payload))
        return ""

    def _said(self, event: Mapping[str, Any]) -> str:
        self._model = event.get("model") or self._model
        if usage := event.get("usage"):
            self._usage = _usage(usage)
        try:
            choice = event["choices"][0] if event.get("choices") else {}
            said = choice.get("delta") or {}
            text, reasoning = parts_of(said)
            if calls := said.get("tool_calls"):
                self._calls.feed(calls)
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        except (AttributeError, LookupError, TypeError) as error:
            raise LLMResponseError("The server sent a malformed event.") from error
        if not isinstance(text, str):
            raise LLMResponseError("The server sent a content that is not text.")
        self.filter.note(storable(reasoning))
        return text


class _CallAssembler:
    """Tool calls from the pieces of a stream, in order: one continues the call of its `index`, another id begins one."""

    def __init__(self) -> None:
        self._calls: list[dict[str, str]] = []
        self._by_index: dict[int, dict[str, str]] = {}

    def feed(self, pieces: Any) -> None:
        """Add the `tool_calls` of one delta; anything but a list of objects is a `TypeError` or `AttributeError`."""
        if not isinstance(pieces, list):
            raise TypeError("tool_calls is not a list")
        for piece in pieces:
            function = piece.get("function") or {}
            name = str(function.get("name") or "")
            call = self._call(piece.get("index"), str(piece.get("id") or ""), name)
            call["name"] = call["name"] or name
            arguments = function.get("arguments")
            if arguments is not None and not isinstance(arguments, str):  # some servers send the object itself
                arguments = json.dumps(arguments, ensure_ascii=False)
            call["arguments"] += arguments or ""

    def calls(self) -> tuple[RequestedCall, ...]:
        return tuple(RequestedCall(**{name: storable(value) for name, value in call.items()}) for call in self._calls)

    def _call(self, index: Any, identifier: str, name: str) -> dict[str, str]:
        number = index if isinstance(index, int) else 0
        known = self._by_index.get(number)
        begins = not isinstance(index, int) and not identifier and bool(name)
        same = not identifier or identifier == (known or {}).get("id", identifier)
        if known is not None and same and not begins:
            known["id"] = known["id"] or identifier
            return known
        call = self._by_index[number] = {"id": identifier, "name": "", "arguments": ""}
        self._calls.append(call)
        return call


def _decoded(payload: bytes) -> Mapping[str, Any]:
    """The JSON object of a body or event; raises when it is none, or is the server's error."""
    try:
        event = json.loads(payload.decode())
    except (ValueError, RecursionError) as error:
        # The decoder's own error shows the payload, hence no chaining.
        raise LLMResponseError(f"The server sent malformed JSON ({type(error).__name__}).") from None
    if not isinstance(event, dict):
        raise LLMResponseError("The server sent JSON that is not an object.")
    if event.get("error") or event.get("object") == "error":
        told = event["error"] if isinstance(event.get("error"), dict) else event
        code = str(told.get("code"))
        raise _error("The server announced an error", told, json.dumps(told), int(code) if code.isdecimal() else None)
    return event


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    prompt, completion = (count if isinstance(count, int) else 0 for count in counts)
    return Usage(prompt_tokens=prompt, completion_tokens=completion)
