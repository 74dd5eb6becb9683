"""What a model server answers, decoded: the events of a stream, the JSON of a whole reply, and the tool calls in both.

Knows nothing of the network. Parsed by hand from the raw bytes, because the typed objects of a client library cost
several times the rest of the path for each token. What a server answers may hold the prompt, so an error keeps its
codes only.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.errors import (
    LLMCutError,
    LLMError,
    LLMQuotaError,
    LLMRateLimitedError,
    LLMResponseError,
    LLMUnavailableError,
)
from agents.llm.base import Reply, RequestedCall, Usage
from agents.llm.server import error_for_status, is_used_up, short_code
from agents.texts import storable

#: One event holds one token; a larger one is not a stream of a language model.
_MAX_EVENT_BYTES = 1024 * 1024


_RATE_LIMIT = re.compile(r"rate.?limit", re.I)


_TRANSIENT = re.compile(r"server.?error|overload|unavailable|timeout|capacity", re.I)


_SURROGATE = re.compile("[\ud800-\udfff]")


#: More calls or longer arguments than these are a runaway model; the decoder's memory is bounded by them.
_MAX_TOOL_CALLS = 128


_MAX_ARGUMENT_CHARACTERS = 1024 * 1024


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
            text = storable(text)
        if "\0" in text:
            text = text.replace("\0", "")
        self._texts.append(text)
        return text


class _CallAssembler:
    """Tool calls from the pieces of a stream, in the order in which they began.

    Servers differ: a piece continues the call of its `index`; one that brings another id begins a call, also where the
    server numbers every call 0 or does not number them.
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
            RequestedCall(id=storable(call["id"]), name=storable(call["name"]), arguments=storable(call["arguments"]))
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


def reply_from_completion(body: bytes, *, model: str) -> Reply:
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
        text=storable(text),
        model=completion.get("model") or model,
        usage=_usage(completion.get("usage")),
        finish_reason=finish_reason,
        tool_calls=calls.calls(),
    )


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
        announced = event.get("error")
        raise _announced_error(announced if isinstance(announced, dict) else event)
    return event


def _announced_error(error: Mapping[str, Any]) -> LLMError:
    """The error that a server announces inside a response of status 200."""
    code, kind = error.get("code"), error.get("type")
    detail = f"The server announced an error (type {short_code(kind)}, code {short_code(code)})."
    if str(code).isdigit():
        return error_for_status(int(str(code)), detail, codes=str(kind))
    if is_used_up(f"{kind} {code}"):
        return LLMQuotaError(detail)
    if _RATE_LIMIT.search(f"{kind} {code}"):
        return LLMRateLimitedError(detail)
    if _TRANSIENT.search(f"{kind} {code}"):
        return LLMUnavailableError(detail)
    return LLMResponseError(detail)


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    prompt, completion = (count if isinstance(count, int) else 0 for count in counts)
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


def _argument_text(arguments: Any) -> str:
    """The arguments as text; some servers send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
