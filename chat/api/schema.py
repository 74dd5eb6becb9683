"""What `/api/schema/` says of the views that are no part of REST framework (`/api/rag`, `/v1`), and an example of each
body, which a site with a deployment `demo` takes as it stands.
"""

from typing import Any

_TEXT = {"type": "string"}
_ID = {"type": "string", "format": "uuid"}
_QUESTION = {
    "type": "object",
    "required": ["message", "clientMessageId"],
    "additionalProperties": True,
    "properties": {
        "message": _TEXT,
        "clientMessageId": {**_TEXT, "description": "The same again finds the turn that it began."},
        "conversationId": {**_ID, "nullable": True},
        "deployment": {**_TEXT, "description": "Where no conversation is named."},
        "replaces": {**_ID, "nullable": True, "description": "The turn that this one is a version of."},
        "asTyped": {
            "type": "boolean",
            "default": False,
            "description": "Look it up as it was typed, its faults and acronyms too.",
        },
        "phase": _TEXT,
        "project": _TEXT,
    },
}
_CSRF = {
    "in": "header",
    "name": "X-CSRFToken",
    "schema": _TEXT,
    "description": "The value of the cookie `csrftoken`; demanded with the session's cookie.",
}
_AFTER = {"in": "header", "name": "Last-Event-ID", "schema": {"type": "integer", "minimum": 0, "default": 0}}
_TURN = {"in": "path", "name": "turn_id", "required": True, "schema": _ID}
#: The form of one event.
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "id": {**_TEXT, "description": "To go on after it: `Last-Event-ID`."},
        "event": {"enum": ["meta", "sources", "delta", "tool", "done", "error"]},
        "data": {**_TEXT, "description": "A JSON object, as text."},
    },
}
_EVENTS = {
    "description": "Events: `meta`, `sources`, `delta`, `tool`, and `done` or `error` at the end.",
    "content": {"text/event-stream": {"schema": _EVENT}},
}
_STOPPED = {
    "description": "`stopped` is false where the turn had ended.",
    "content": {"application/json": {"schema": {"type": "object", "properties": {"stopped": {"type": "boolean"}}}}},
}
_REFUSED = {
    "description": "`code` and `message`, or what is wrong by field.",
    "content": {"application/json": {"schema": {}}},
}
#: By operation.
EXAMPLES: dict[str, dict[str, Any]] = {
    "rag_chat": {"message": "Bonjour", "clientMessageId": "a1", "deployment": "demo"},
    "conversations_create": {"deployment": "demo"},
    "conversations_partial_update": {"title": "Candidatures"},
    "message_feedback": {"verdict": "up"},
    "chat_session_messages_batch": {
        "operation_id": "9f1c1c1e-58f5-4b2f-9d40-0d9a3c2f7b11",
        "relance_index": 0,
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "free_rooms", "arguments": '{"day": "2026-03-02"}'},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "c1",
                "name": "free_rooms",
                "content": '{"rooms": ["B2"]}',
                "timestamp": "2026-03-01T10:00:00Z",
                "relance_index": 0,
            },
        ],
    },
    "v1_chat_completions": {"model": "demo", "messages": [{"role": "user", "content": "Bonjour"}]},
    "v1_completions": {"model": "demo", "prompt": "Bonjour"},
    "v1_responses": {"model": "demo", "input": "Bonjour"},
}


def add_questions(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular, after that of `/v1`: these views are no part of REST framework."""
    chat = _operation("rag_chat", "200", _EVENTS, _CSRF)
    chat["requestBody"] = {"required": True, "content": {"application/json": {"schema": _QUESTION}}}
    below = "/api/rag/turns/{turn_id}/"
    result["paths"] |= {
        "/api/rag/chat": {"post": chat},
        f"{below}events": {"get": _operation("turn_events", "200", _EVENTS, _TURN, _AFTER)},
        f"{below}retry": {"post": _operation("turn_retry", "200", _EVENTS, _TURN, _CSRF)},
        f"{below}stop": {"post": _operation("turn_stop", "202", _STOPPED, _TURN, _CSRF)},
    }
    for path, operations in result["paths"].items():
        for operation in operations.values():
            if path.startswith("/api/"):
                operation["responses"] |= {"4XX": _REFUSED, "503": _REFUSED}
            if operation["operationId"] in EXAMPLES:
                content = operation["requestBody"]["content"]["application/json"]
                content["example"] = EXAMPLES[operation["operationId"]]
    return result


def _operation(name: str, status: str, answer: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": ["rag"],
        "security": [{"cookieAuth": []}, {}],
        "parameters": list(parameters),
        "responses": {status: answer},
    }


_OBJECT = {"type": "object", "additionalProperties": True}
_V1_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": "string", "nullable": True}
_ERROR = {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {"message": _V1_TEXT, "type": _V1_TEXT, "param": _TEXT_OR_NULL, "code": _TEXT_OR_NULL},
}
_REFUSAL = {"type": "object", "required": ["error"], "properties": {"error": _ERROR}}
_MODEL = {"type": "string", "description": "The slug of a deployment of the key."}
_PART = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _V1_TEXT, "text": _V1_TEXT},
    "additionalProperties": True,
}
_CONTENT = {
    "anyOf": [_V1_TEXT, {"type": "array", "items": _PART}],
    "nullable": True,
    "description": "A text, or parts of it; parts that are no text are passed over.",
}
_MESSAGE = {
    "type": "object",
    "required": ["role"],
    "additionalProperties": True,
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
        "content": _CONTENT,
    },
}
#: Calls of tools and their results, which are passed over, have no role.
_ITEM = {key: value for key, value in _MESSAGE.items() if key != "required"}
_ITEMS = {"anyOf": [_V1_TEXT, {"type": "array", "minItems": 1, "items": _ITEM}]}
_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "additionalProperties": True,
    "properties": {
        "model": _MODEL,
        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
        "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
    },
}
_IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": _V1_TEXT,
    "description": "The same key and messages get the same answer, and a closed connection does not stop it.",
}
#: The form of one event.
_V1_EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {**_V1_TEXT, "description": "A chunk as JSON; `[DONE]` at the end."}},
}
_SLUG = {"in": "path", "name": "slug", "required": True, "schema": _V1_TEXT}


def add_v1(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular: these views are no part of REST framework."""
    result["components"].setdefault("securitySchemes", {})["apiKey"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (rsk_…) of staff's making.",
    }
    refusals = (400, 401, 403, 404, 409, 413, 422, 429, 502, 503, 504)
    completion = _v1_operation("v1_chat_completions", refusals, _IDEMPOTENCY_KEY)
    completion["requestBody"] = {"required": True, "content": _json(_REQUEST)}
    result["paths"] |= {
        "/v1/models": {"get": _v1_operation("v1_models", (401,))},
        "/v1/models/{slug}": {"get": _v1_operation("v1_model", (401, 404), _SLUG)},
        "/v1/chat/completions": {"post": _streamable(completion)},
        "/v1/completions": {"post": _streamable(_asked("v1_completions", refusals, prompt=_V1_TEXT))},
        "/v1/responses": {"post": _streamable(_asked("v1_responses", refusals, input=_ITEMS))},
    }
    return result


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _asked(name: str, refusals: tuple[int, ...], **fields: Any) -> dict[str, Any]:
    """An operation with a model and more fields that are demanded."""
    schema = {
        "type": "object",
        "required": ["model", *fields],
        "additionalProperties": True,
        "properties": {"model": _MODEL, **fields},
    }
    operation = _v1_operation(name, refusals)
    operation["requestBody"] = {"required": True, "content": _json(schema)}
    return operation


def _streamable(operation: dict[str, Any]) -> dict[str, Any]:
    """The same, whose answer can be asked for as events."""
    body = operation["requestBody"]["content"]["application/json"]
    properties = {**body["schema"]["properties"], "stream": {"type": "boolean", "default": False}}
    body["schema"] = {**body["schema"], "properties": properties}
    operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": _V1_EVENT}
    return operation


def _v1_operation(name: str, refusals: tuple[int, ...], *parameters: dict[str, Any]) -> dict[str, Any]:
    refused = {"description": "OpenAI's error object.", "content": _json(_REFUSAL)}
    return {
        "operationId": name,
        "tags": ["v1"],
        "security": [{"apiKey": []}],
        "parameters": list(parameters),
        "responses": {"200": {"description": "As OpenAI's.", "content": _json(_OBJECT)}}
        | {str(status): refused for status in refusals},
    }
