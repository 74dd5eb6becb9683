"""Any OpenAI-compatible server (OpenAI, Groq, Ollama, vLLM…).

`complete` goes through the `openai` package. `stream` goes through `agents.llm.transport` and is decoded here from the
raw bytes, because the package's parsed objects cost several times the rest of the path for each token. Tokens that
arrive in one network chunk leave as one `StreamChunk`. The package is imported at first use or by `warm_up`, since
its import takes more than a second. What a server answers may hold the prompt or the key, so an error keeps its
status and codes only.
"""

import asyncio
import json
import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks

from agents.exceptions import (
    LLMCutError,
    LLMError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMTimeoutError,
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
)
from agents.llm.transport import (
    ResponseBody,
    StatusError,
    StreamTransport,
    error_for_status,
    retry_after,
    short_code,
)

if TYPE_CHECKING:
    import openai

#: Servers without authentication still need a header that is not blank.
_NO_KEY = "none"
#: One event holds one token; a larger one is not a stream of a language model.
_MAX_EVENT_BYTES = 1024 * 1024
#: How long the end of the body may come after the end of the reply, for the connection to be used again.
_DRAIN_SECONDS = 0.25
_DEFAULT_BASE_URL = "https://api.openai.com/v1"
_RATE_LIMIT = re.compile(r"rate.?limit", re.I)
_TRANSIENT = re.compile(r"server.?error|overload|unavailable|timeout|capacity", re.I)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: More calls or longer arguments than these are a runaway model; the decoder's memory is bounded by them.
_MAX_TOOL_CALLS = 128
_MAX_ARGUMENT_CHARACTERS = 1024 * 1024
#: Optional arguments that some servers or models refuse, and what to send instead (`None`: nothing).
_ADAPTATIONS: Mapping[str, str | None] = {
    "stream_options": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
    "tools": None,
}


class OpenAILanguageModel(LanguageModel):
    supports_tools: ClassVar[bool] = True

    def __init__(
        self,
        *,
        api_key: str = "",
        base_url: str = "",
        model: str = "",
        connect_timeout: float = 5.0,
        read_timeout: float = 60.0,
        max_retries: int = 2,
        max_connections: int = 600,
        pause_per_stream: float = 0.0,
    ) -> None:
        """`read_timeout` bounds the wait for the first token and between two tokens, in seconds."""
        self._api_key = api_key
        self._base_url = base_url
        self._model = model
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._max_retries = max_retries
        self._max_connections = max_connections
        self._lock = threading.Lock()
        self._sync_client: openai.OpenAI | None = None
        self._transport = StreamTransport(
            base_url=base_url or _DEFAULT_BASE_URL,
            api_key=api_key or _NO_KEY,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            max_retries=max_retries,
            max_connections=max_connections,
            pause_per_stream=pause_per_stream,
        )
        #: By model: the arguments it refused, learnt once, then never sent again.
        self._refused: dict[str, frozenset[str]] = {}

    @property
    def default_model(self) -> str:
        return self._model

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        client = self._client()
        model = options.model or self._model
        refused = self._refused.get(model, frozenset())
        while True:
            request = self._request(messages, options, refused=refused)
            try:
                with _translated_errors():
                    response = client.chat.completions.with_raw_response.create(
                        **_sdk_arguments(request)
                    )
                    body = response.http_response.content
                break
            except LLMResponseError as error:
                refused = refused | _newly_refused(error, request=request)
        self._refused[model] = refused
        return _reply_from_completion(body, model=model)

    async def stream(
        self, messages: Sequence[PromptMessage], options: GenerationOptions
    ) -> AsyncGenerator[StreamChunk, None]:
        decoder = StreamDecoder(model=options.model or self._model)
        async with AsyncExitStack() as opened:
            body = await self._open_stream(opened, messages, options)
            try:
                while not decoder.is_done and (data := await body.read()):
                    if text := decoder.feed(data):
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
        self,
        opened: AsyncExitStack,
        messages: Sequence[PromptMessage],
        options: GenerationOptions,
    ) -> ResponseBody:
        """The body of a reply; `opened` closes it. An argument that the server refuses is left out from then on."""
        model = options.model or self._model
        refused = self._refused.get(model, frozenset())
        while True:
            request = self._request(messages, options, refused=refused, stream=True)
            try:
                body = await opened.enter_async_context(
                    self._transport.post("chat/completions", request)
                )
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
        """Import the SDK and make the clients: of the process, and of the running event loop if there is one."""
        self._client()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._transport.open_session()

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _client(self) -> "openai.OpenAI":
        with self._lock:
            if self._sync_client is None:
                import openai

                self._sync_client = openai.OpenAI(
                    api_key=self._api_key or _NO_KEY,
                    base_url=self._base_url or _DEFAULT_BASE_URL,
                    timeout=openai.Timeout(self._read_timeout, connect=self._connect_timeout),
                    max_retries=self._max_retries,
                )
            return self._sync_client

    # Configuration

    def check(self) -> list[checks.CheckMessage]:
        found: list[checks.CheckMessage] = []
        if not self._api_key and not self._base_url:
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
        if not self._base_url:
            return []
        try:
            address = urlsplit(self._base_url)
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
        if address.scheme == "http" and self._api_key and not loopback:
            return [
                checks.Warning(
                    "The language model's key travels unencrypted: OPENAI_BASE_URL is http.",
                    id="agents.W001",
                )
            ]
        return []

    def _bound_messages(self) -> list[checks.CheckMessage]:
        found: list[checks.CheckMessage] = []
        if min(self._connect_timeout, self._read_timeout, self._max_connections) <= 0:
            found.append(
                checks.Error(
                    "LLM_CONNECT_TIMEOUT_SECONDS, LLM_READ_TIMEOUT_SECONDS and LLM_MAX_CONNECTIONS "
                    "must be positive.",
                    id="agents.E005",
                )
            )
        if self._max_retries < 0:
            found.append(checks.Error("LLM_MAX_RETRIES is negative.", id="agents.E006"))
        if self._read_timeout > settings.TURN_TIMEOUT_SECONDS:
            found.append(
                checks.Warning(
                    "LLM_READ_TIMEOUT_SECONDS is longer than TURN_TIMEOUT_SECONDS and never reached.",
                    id="agents.W002",
                )
            )
        return found


class StreamDecoder:
    """Server-sent events to text: bytes in, joined text out; `reply()` once the body has ended.

    Knows nothing of the network. Accepts LF and CRLF, comments, events of several lines, and any cut of the bytes.
    """

    def __init__(self, *, model: str) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._texts: list[str] = []
        self._held = ""
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
        text = ""
        for line in lines:
            text += self._line(line)
        return self._kept(text) if text else ""

    def close(self) -> str:
        """Decode a last event that the body ended without terminating, and what was held back."""
        text = self._line(self._buffer) + self._line(b"")
        self._buffer = b""
        held, self._held = self._held, ""
        return self._kept(held + text, hold=False)

    def reply(self) -> Reply:
        if not self.is_finished:
            raise LLMCutError("The stream was cut before the end of the reply.")
        return Reply(
            text="".join(self._texts),
            model=self._model,
            usage=self._usage,
            finish_reason=self._finish_reason or "stop",
            tool_calls=self._calls.calls(),
        )

    def _line(self, line: bytes) -> str:
        if line.startswith(b"data:"):
            self._data.append(line)
            return ""
        if self._data and not line.strip(b"\r"):
            payload = b"\n".join(part[5:].strip() for part in self._data)
            self._data.clear()
            return self._event(payload)
        return ""

    def _event(self, payload: bytes) -> str:
        if payload == b"[DONE]":
            self.is_done = True
        if self.is_done or not payload:
            return ""
        event = _decoded(payload)
        self._model = event.get("model") or self._model
        if usage := event.get("usage"):
            self._usage = _usage(usage)
        choices = event.get("choices")
        if not choices:
            return ""
        try:
            choice = choices[0]
            delta = choice.get("delta") or {}
            text = delta.get("content") or delta.get("refusal") or ""
            if pieces := delta.get("tool_calls"):
                self._calls.feed(pieces)
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        except (AttributeError, LookupError, TypeError) as error:
            raise LLMResponseError("The server sent a malformed event.") from error
        if not isinstance(text, str):
            raise LLMResponseError("The server sent a content that is not text.")
        return text

    def _kept(self, text: str, *, hold: bool = True) -> str:
        """Remember the text; a character whose halves come in two tokens is held back until it is whole."""
        if self._held:
            text, self._held = self._held + text, ""
        if not text.isascii() and _SURROGATE.search(text):
            if hold and "\ud800" <= text[-1] <= "\udbff":
                text, self._held = text[:-1], text[-1]
            text = _storable(text)
        if "\0" in text:
            text = text.replace("\0", "")
        self._texts.append(text)
        return text


class _CallAssembler:
    """Tool calls from the pieces of a stream, in the order in which they began.

    Servers differ: a piece continues the call of its `index`; one that brings another id begins a call, also where
    the server numbers every call 0 or does not number them.
    """

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
            call["arguments"] += _argument_text(function.get("arguments"))
            if len(call["arguments"]) > _MAX_ARGUMENT_CHARACTERS:
                raise LLMResponseError("The server sent oversized tool arguments.")

    def calls(self) -> tuple[RequestedCall, ...]:
        return tuple(
            RequestedCall(
                id=_storable(call["id"]),
                name=_storable(call["name"]),
                arguments=_storable(call["arguments"]).replace("\0", ""),
            )
            for call in self._calls
        )

    def _call(self, index: Any, identifier: str, name: str) -> dict[str, str]:
        number = index if isinstance(index, int) else 0
        known = self._by_index.get(number)
        begins = not isinstance(index, int) and not identifier and bool(name)
        same = not identifier or identifier == (known or {}).get("id", identifier)
        if known is not None and same and not begins:
            known["id"] = known["id"] or identifier
            return known
        if len(self._calls) >= _MAX_TOOL_CALLS:
            raise LLMResponseError("The server asked for too many tool calls.")
        call = self._by_index[number] = {"id": identifier, "name": "", "arguments": ""}
        self._calls.append(call)
        return call


def _argument_text(arguments: Any) -> str:
    """The arguments as text; some servers send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _wire_message(message: PromptMessage) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [call.as_json() for call in message.tool_calls]
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _storable(text: str) -> str:
    """Pair the halves of characters; a lone half becomes U+FFFD, since it can be neither sent nor stored."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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


# Bodies


def _sdk_arguments(request: Mapping[str, Any]) -> dict[str, Any]:
    """Hand the request over as `extra_body`: the SDK walks through typed arguments for half a millisecond a call."""
    return {
        "model": request["model"],
        "messages": [],
        "stream": request.get("stream", False),
        "extra_body": request,
    }


def _decoded(payload: bytes) -> Mapping[str, Any]:
    """The JSON object of a body or event; raises when it is none, or is the server's error."""
    try:
        event = json.loads(payload.decode())
    except (ValueError, RecursionError) as error:
        # The decoder's own error shows the payload, hence no chaining.
        raise LLMResponseError(
            f"The server sent malformed JSON ({type(error).__name__})."
        ) from None
    if not isinstance(event, dict):
        raise LLMResponseError("The server sent JSON that is not an object.")
    if event.get("error") or event.get("object") == "error":
        announced = event.get("error")
        raise _announced_error(announced if isinstance(announced, dict) else event)
    return event


def _announced_error(error: Mapping[str, Any]) -> LLMError:
    """The error that a server announces inside a response of status 200."""
    code, kind = error.get("code"), error.get("type")
    detail = f"The server announced an error (type {short_code(kind)}, code {short_code(code)})."
    if str(code).isdigit():
        return error_for_status(int(str(code)), detail)
    if _RATE_LIMIT.search(f"{kind} {code}"):
        return LLMRateLimitedError(detail)
    if _TRANSIENT.search(f"{kind} {code}"):
        return LLMUnavailableError(detail)
    return LLMResponseError(detail)


def _reply_from_completion(body: bytes, *, model: str) -> Reply:
    completion = _decoded(body)
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        text = message.get("content") or message.get("refusal") or ""
        calls = _CallAssembler()
        for number, piece in enumerate(message.get("tool_calls") or []):
            calls.feed([{**piece, "index": number}])
        finish_reason = choice.get("finish_reason") or "stop"
    except (AttributeError, LookupError, TypeError) as error:
        raise LLMResponseError("The server's reply has no message.") from error
    if not isinstance(text, str):
        raise LLMResponseError("The server's reply is not text.")
    return Reply(
        text=_storable(text).replace("\0", ""),
        model=completion.get("model") or model,
        usage=_usage(completion.get("usage")),
        finish_reason=finish_reason,
        tool_calls=calls.calls(),
    )


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    prompt, completion = (count if isinstance(count, int) else 0 for count in counts)
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


# Errors


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise this project's errors instead of the vendor's, chained, without what the server said."""
    import httpx2
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        detail = _status_detail(error)
        error.args = (detail,)
        translated = error_for_status(error.status_code, detail)
        translated.retry_after = retry_after(error.response.headers)
        raise translated from error
    except (openai.APITimeoutError, httpx2.TimeoutException) as error:
        raise LLMTimeoutError("The server did not answer in time.") from error
    except openai.APIConnectionError as error:
        raise LLMUnavailableError("The server cannot be reached.") from error
    except (httpx2.HTTPError, httpx2.StreamError, openai.OpenAIError) as error:
        raise LLMResponseError(f"The response failed ({type(error).__name__}).") from error


def _status_detail(error: "openai.APIStatusError") -> str:
    request_id = f", request {short_code(error.request_id)}" if error.request_id else ""
    return f"The server answered {error.status_code} (code {short_code(error.code)}{request_id})."


def _newly_refused(error: LLMResponseError, *, request: Mapping[str, Any]) -> frozenset[str]:
    """The optional arguments that a 400 refuses by name; raises `error` again when there is none."""
    status, said = _refusal(error.__cause__)
    if status not in {400, 422}:
        raise error
    unsupported = "unsupported" in said.lower() or "not support" in said.lower()
    refused = {
        name
        for name in _ADAPTATIONS.keys() & request.keys()
        # "max_tokens is too large" is about the value, and is the caller's affair.
        if name in said and (unsupported or name == "stream_options")
    }
    if not refused:
        raise error
    return frozenset(refused)


def _refusal(cause: BaseException | None) -> tuple[int, str]:
    """The status and text of an answer that refuses a request, from either half."""
    import openai

    if isinstance(cause, StatusError):
        return cause.status, cause.said
    if isinstance(cause, openai.APIStatusError):
        return cause.status_code, cause.response.text
    return 0, ""
