"""A scripted, OpenAI-compatible model server on loopback, for tests and benchmarks.

It is as strict as the real one about what it is sent (roles, null contents, a tool message without its call, unknown
arguments are 400), counts and keeps every call, and misbehaves on demand: late, slow, cut, silent, malformed, refusing.
It is a bare `asyncio.Protocol`, so that a hundred streams leave the processor to the program under test. Replies are
taken from `replies` in order; afterwards `fallback` answers, by default from the passages in the prompt. Standard
library only; never serve it on another interface than loopback.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

Body = Mapping[str, Any]
Respond = Callable[[Body], "ModelReply"]

_MAX_REQUEST_BYTES = 16 * 1024 * 1024
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}
_CHAT_ARGUMENTS = frozenset(
    "model messages temperature top_p n stream stream_options stop max_tokens max_completion_tokens presence_penalty "
    "frequency_penalty seed response_format tools tool_choice parallel_tool_calls user".split()
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One answer and its faults. Times are seconds; `…_after` counts the tokens sent before the fault."""

    tokens: Sequence[str] = ()
    tool_calls: Sequence[Mapping[str, str]] = ()
    """Each `{"id", "name", "arguments"}`; sent after the tokens, the arguments in pieces."""
    delay: float = 0.0
    interval: float = 0.0
    finish_reason: str = "stop"
    status: int = 200
    retry_after: float | None = None
    error_message: str = "Scripted failure."
    error_code: str | None = None
    cut_after: int | None = None
    """Reset the connection."""
    end_after: int | None = None
    """End the body properly, but with neither finish reason nor [DONE]."""
    hang_after: int | None = None
    """Send nothing more and keep the connection open."""
    error_after: int | None = None
    """Send an `error` object in the stream, then end."""
    malformed_after: int | None = None
    """Send an event that is not JSON."""
    keep_alive_comments: bool = False
    send_done: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    path: str
    body: Body
    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Refusal(Exception):
    status: int
    message: str
    param: str | None = None
    code: str | None = None

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        if self.status == 429:
            kind = "rate_limit_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


# Answers when nothing is scripted


def tokenised(text: str) -> list[str]:
    """Cut a text in pieces about as long as a model's tokens; joined, they give the text again."""
    return re.findall(r"\s*\w{1,6}|\s*[^\w\s]|\s+$", text)


def cited_answer(body: Body) -> ModelReply:
    """Answer from the first numbered passage of the last user message, citing it, as a model would."""
    if body.get("response_format", {}).get("type") == "json_object":
        return ModelReply(tokens=["{}"])
    question = next(text_of(m) for m in reversed(body["messages"]) if m["role"] == "user")
    passage = re.search(r"\[Source 1\][^\n]*\n+(.+?)(?=\n\s*\n|\[Source 2\]|$)", question, re.DOTALL)
    if passage is None:
        return ModelReply(tokens=tokenised("D’après les documents fournis [1], voici la réponse."))
    excerpt = " ".join(passage[1].split())[:400]
    return ModelReply(tokens=tokenised(f"D’après les documents fournis [1], {excerpt}"))


# What the real server refuses


def check_chat_request(body: Body, *, refused: frozenset[str] = frozenset()) -> None:
    """Raise the refusal that the real server would answer with."""
    for name in body:
        if name in refused:
            raise _Refusal(400, f"Unsupported parameter: '{name}'.", name, "unsupported_parameter")
        if name not in _CHAT_ARGUMENTS:
            raise _Refusal(400, f"Unrecognized request argument supplied: {name}", name)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise _Refusal(400, "you must provide a model parameter", "model")
    _check_numbers(body)
    _check_messages(body.get("messages"))
    _check_tools(body)
    _check_response_format(body)


def _check_numbers(body: Body) -> None:
    temperature = body.get("temperature", 1)
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise _Refusal(400, "'temperature' must be between 0 and 2.", "temperature")
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _Refusal(400, f"'{name}' must be a positive integer.", name)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise _Refusal(400, "'messages' must be a non-empty array.", "messages")
    pending: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise _Refusal(400, f"{where}.role is not one of {sorted(_ROLES)}.", where)
        pending = _after_message(message, where=where, pending=pending)
    if pending:
        raise _Refusal(400, "tool_calls must be followed by tool messages.", "messages")


def _after_message(message: Mapping[str, Any], *, where: str, pending: set[str]) -> set[str]:
    """The tool calls still without an answer after `message`."""
    calls = message.get("tool_calls") or []
    content = message.get("content")
    if not isinstance(content, str) and not (content is None and calls):
        raise _Refusal(400, f"{where}.content must be a string, not null.", where)
    if message["role"] == "tool":
        if message.get("tool_call_id") not in pending:
            raise _Refusal(400, f"{where}: 'tool' must be a response to a preceding 'tool_calls'.", where)
        return pending - {message["tool_call_id"]}
    if pending:
        raise _Refusal(400, f"{where}: tool_calls before it lack their tool messages.", where)
    if calls and message["role"] != "assistant":
        raise _Refusal(400, f"{where}: only an assistant message has tool_calls.", where)
    for call in calls:
        _check_call(call, where=where)
    return {call["id"] for call in calls}


def text_of(message: Mapping[str, Any]) -> str:
    return str(message.get("content") or "")


def _check_call(call: Any, *, where: str) -> None:
    identifier = call.get("id")
    if not isinstance(identifier, str) or not 0 < len(identifier) <= 40:
        raise _Refusal(400, f"{where}.tool_calls.id must be a string of 1 to 40 characters.", where)
    function = call.get("function") or {}
    if call.get("type") != "function" or not _NAME.fullmatch(str(function.get("name"))):
        raise _Refusal(400, f"{where}.tool_calls: expected a function with a valid name.", where)
    try:
        parsed = json.loads(str(function.get("arguments")))
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise _Refusal(400, f"{where}.tool_calls: arguments must be a JSON object as text.", where)


def _check_tools(body: Body) -> None:
    if "tools" not in body:
        return
    tools = body["tools"]
    if not isinstance(tools, list) or not 0 < len(tools) <= 128:
        raise _Refusal(400, "'tools' must be an array of 1 to 128 tools.", "tools")
    names: set[str] = set()
    for tool in tools:
        function = tool.get("function") or {}
        name = str(function.get("name"))
        if tool.get("type") != "function" or not _NAME.fullmatch(name) or name in names:
            raise _Refusal(400, "'tools' must be functions with valid, distinct names.", "tools")
        if fault := _schema_fault(function.get("parameters") or {"type": "object"}):
            message = f"Invalid schema for function '{name}': {fault}"
            where = f"tools[{len(names)}].function.parameters"
            raise _Refusal(400, message, where, "invalid_function_parameters")
        names.add(name)


def _schema_fault(schema: Any) -> str:
    """What the real server refuses about the schema of a function; empty where it takes it."""
    if schema.get("type") != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    refused = {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    if refused:
        return f"schema must have type 'object' and not have {sorted(refused)} at the top level."
    return _nested_fault(schema, "()")


def _nested_fault(schema: Any, where: str) -> str:
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"In context={where}, {schema!r} is not of type 'object', 'boolean'."
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if strange := set(kinds) - set("string number integer boolean object array null".split()):
        return f"In context={where}, {sorted(strange)} is not valid."
    if "array" in kinds and "items" not in schema:
        return f"In context={where}, array schema missing items."
    inner = [(f"('properties', '{k}')", v) for k, v in schema.get("properties", {}).items()]
    inner += [("('items',)", schema["items"])] if "items" in schema else []
    for word in ("anyOf", "oneOf", "allOf"):
        inner += [(f"('{word}',)", part) for part in schema.get(word, [])]
    return next((fault for at, part in inner if (fault := _nested_fault(part, at))), "")


def _check_response_format(body: Body) -> None:
    wanted = body.get("response_format", {"type": "text"})
    if not isinstance(wanted, dict) or wanted.get("type") not in {"text", "json_object", "json_schema"}:
        raise _Refusal(400, "Invalid 'response_format'.", "response_format")
    said = any("json" in text_of(m).lower() for m in body["messages"])
    if wanted["type"] == "json_object" and not said:
        raise _Refusal(400, "'messages' must contain the word 'json' in some form.", "response_format")


def _usage(body: Body, reply: ModelReply) -> dict[str, int]:
    prompt = sum(len(text_of(m).split()) for m in body["messages"])
    done = len(reply.tokens)
    return {"prompt_tokens": prompt, "completion_tokens": done, "total_tokens": prompt + done}


def _finish_reason(reply: ModelReply) -> str:
    return "tool_calls" if reply.tool_calls else reply.finish_reason


def _call_deltas(reply: ModelReply) -> Iterable[str]:
    """The calls as the real server streams them: id and name first, then the arguments in pieces."""
    for index, call in enumerate(reply.tool_calls):
        opening = {
            "index": index,
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": ""},
        }
        yield json.dumps({"tool_calls": [opening]})
        text = call["arguments"]
        for start in range(0, len(text), 7):
            piece = {"index": index, "function": {"arguments": text[start : start + 7]}}
            yield json.dumps({"tool_calls": [piece]}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece of the response body; `token`: the pace applies before it; `then`: `cut`, `hang` or nothing."""

    data: bytes
    token: bool = False
    then: str = ""


def _event(reply: ModelReply, data: str) -> bytes:
    comment = ": keep-alive\n\n" if reply.keep_alive_comments else ""
    return f"{comment}data: {data}\n\n".encode()


def _stream_steps(body: Body, reply: ModelReply) -> Iterable[_Step]:
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": body["model"],
        "system_fingerprint": "fp_scripted",
    }
    before = json.dumps(head)[:-1] + ', "choices": [{"index": 0, "delta": '
    after = ', "logprobs": null, "finish_reason": null}]}'
    opening = json.dumps({"role": "assistant", "content": ""})
    yield _Step(_event(reply, f"{before}{opening}{after}"))
    for count, token in enumerate(reply.tokens):
        if (fault := _fault(reply, count)) is not None:
            yield fault
            return
        delta = '{"content": ' + json.dumps(token, ensure_ascii=False) + "}"
        yield _Step(_event(reply, f"{before}{delta}{after}"), token=True)
    if (fault := _fault(reply, len(reply.tokens))) is not None:
        yield fault
        return
    for delta in _call_deltas(reply):
        yield _Step(_event(reply, f"{before}{delta}{after}"))
    ending = _finish_reason(reply)
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": ending}
    yield _Step(_event(reply, json.dumps({**head, "choices": [choice]})))
    if (body.get("stream_options") or {}).get("include_usage"):
        last = {**head, "choices": [], "usage": _usage(body, reply)}
        yield _Step(_event(reply, json.dumps(last)))
    if reply.send_done:
        yield _Step(_event(reply, "[DONE]"))


def _fault(reply: ModelReply, count: int) -> _Step | None:
    """The scripted fault that comes after `count` tokens, as the last step of the stream."""
    if count == reply.cut_after:
        return _Step(b"", then="cut")
    if count == reply.hang_after:
        return _Step(b"", then="hang")
    if count == reply.end_after:
        return _Step(b"")
    if count == reply.malformed_after:
        return _Step(_event(reply, '{"choices": [{"delta": {"content": "x"'))
    if count == reply.error_after:
        kind = {"message": reply.error_message, "type": "server_error", "code": reply.error_code}
        return _Step(_event(reply, json.dumps({"error": kind})))
    return None


class _Connection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection: reads a request, writes its response, then reads the next."""

    def __init__(self, server: "ModelServer") -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._server.accepted += 1
        self._server._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._server._connections.discard(self)
        self._transport = None
        if self._busy:
            self._server._client_went_away()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next_request()

    def close(self) -> None:
        self._busy = False
        if self._transport is not None:
            self._transport.abort()

    def _next_request(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if self._busy or end < 0:
            return
        request_line, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}
        length = int(headers.get("content-length", "0"))
        if length > _MAX_REQUEST_BYTES or "transfer-encoding" in headers:
            self.close()
        elif len(self._buffer) >= end + 4 + length:
            raw = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            method, path = request_line.split(" ")[:2]
            self._busy = True
            self._answer(method, path.partition("?")[0], headers, raw)

    def _answer(self, method: str, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        try:
            body = json.loads(raw) if raw else {}
            self._route(method, path, headers, body if isinstance(body, dict) else {})
        except json.JSONDecodeError:
            self._refuse(path, {}, headers, _Refusal(400, "The body is not JSON."))
        except _Refusal as refusal:
            self._refuse(path, body, headers, refusal)

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: Body) -> None:
        server = self._server
        if server.api_key and headers.get("authorization") != f"Bearer {server.api_key}":
            raise _Refusal(401, "Incorrect API key provided.", code="invalid_api_key")
        if (method, path) == ("GET", "/v1/models"):
            self._send_json(200, {"object": "list", "data": []})
        elif (method, path) == ("POST", "/v1/chat/completions"):
            self._chat(path, headers, body)
        else:
            raise _Refusal(404, f"Unknown request URL: {method} {path}.")

    def _chat(self, path: str, headers: Mapping[str, str], body: Body) -> None:
        check_chat_request(body, refused=self._server.refused)
        if body.get("stream") is not True:
            raise _Refusal(400, "Only streams are scripted.", "stream")
        reply = self._server._next_reply(body)
        self._server._record(Call(path, body, reply.status, headers))
        self._later(reply.delay, lambda: self._begin_stream(body, reply))

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        if seconds <= 0:
            action()
        else:
            self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _refuse(self, path: str, body: Body, headers: Mapping[str, str], refusal: _Refusal) -> None:
        if path.startswith("/v1/"):
            self._server._record(Call(path, body, refusal.status, headers))
        self._send_json(refusal.status, refusal.body())

    def _send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(body).encode(), "application/json", headers or {})

    def _send(self, status: int, body: bytes, kind: str, headers: Mapping[str, str]) -> None:
        head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}\r\nContent-Type: {kind}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self._finished()

    def _finished(self) -> None:
        self._busy = False
        if self._transport is not None:
            self._next_request()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _begin_stream(self, body: Body, reply: ModelReply) -> None:
        if reply.status != 200:
            extra = {} if reply.retry_after is None else {"Retry-After": f"{reply.retry_after:g}"}
            refusal = _Refusal(reply.status, reply.error_message, None, reply.error_code)
            return self._send_json(reply.status, refusal.body(), extra)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        self._write(head + b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n")
        stream = _Stream(self, _stream_steps(body, reply), reply)
        stream.run()


class _Stream:
    """Paces one streamed response. Times are absolute, so a late tick does not push back those after it."""

    def __init__(self, connection: _Connection, steps: Iterable[_Step], reply: ModelReply) -> None:
        self._connection = connection
        self._steps = iter(steps)
        self._reply = reply
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    def run(self) -> None:
        """Write every step that is due, as one write; wait for the pace before the next token."""
        written: list[bytes] = []
        for step in self._steps:
            written.append(b"%x\r\n%b\r\n" % (len(step.data), step.data) if step.data else b"")
            if step.then:
                self._connection._write(b"".join(written))
                if step.then == "cut":
                    self._cut()
                return
            if step.token and self._reply.interval:
                self._due += self._reply.interval
                if self._due > self._loop.time():
                    self._connection._write(b"".join(written))
                    self._connection._timer = self._loop.call_at(self._due, self.run)
                    return
        written.append(b"0\r\n\r\n")
        self._connection._write(b"".join(written))
        self._connection._finished()

    def _cut(self) -> None:
        # Closing at once would drop what the socket has not sent yet; a half-written chunk shows the cut all the same.
        self._connection._busy = False
        if self._connection._transport is not None:
            self._connection._transport.close()


class ModelServer:
    """The server in a thread of its own: `with ModelServer(replies=[…]) as server: server.base_url`."""

    def __init__(
        self,
        replies: "Iterable[ModelReply | Respond]" = (),
        *,
        fallback: Respond = cited_answer,
        refused: Iterable[str] = (),
        api_key: str = "",
    ) -> None:
        """`refused`: arguments answered 400."""
        self.refused = frozenset(refused)
        self.api_key = api_key
        self.calls: list[Call] = []
        self.disconnects = 0
        self.accepted = 0
        self._replies = list(replies)
        self._fallback = fallback
        self._port = 0
        self._changed = threading.Condition()
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="model-server", daemon=True)
        self._ready = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def script(self, *replies: ModelReply | Respond) -> None:
        """Queue more replies; a function makes its own from the call."""
        with self._changed:
            self._replies.extend(replies)

    def forget_replies(self) -> None:
        """Drop the replies that nobody has asked for."""
        with self._changed:
            self._replies.clear()

    def wait_for_disconnects(self, count: int, *, timeout: float = 60.0) -> bool:
        """Wait until `count` clients went away in the middle of a response."""
        with self._changed:
            return self._changed.wait_for(lambda: self.disconnects >= count, timeout)

    def wait_for_calls(self, count: int, *, timeout: float = 60.0) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.calls) >= count, timeout)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(60) or not self._port:
            raise RuntimeError("The model server did not start.")
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        try:
            listener = self._loop.run_until_complete(start)
            self._port = listener.sockets[0].getsockname()[1]
            self._ready.set()
            self._loop.run_forever()
            listener.close()
            for connection in list(self._connections):
                connection.close()
            self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            self._ready.set()
            self._loop.close()

    def _next_reply(self, body: Body) -> ModelReply:
        with self._changed:
            scripted = self._replies.pop(0) if self._replies else None
        scripted = scripted or self._fallback
        return scripted if isinstance(scripted, ModelReply) else scripted(body)

    def _record(self, call: Call) -> None:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    def _client_went_away(self) -> None:
        with self._changed:
            self.disconnects += 1
            self._changed.notify_all()
