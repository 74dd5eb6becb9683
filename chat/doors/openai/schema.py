"""What `/api/schema/` says of `/v1`: enough to find it and to call it; OpenAI's own reference has the rest."""

from typing import Any

_OBJECT = {"type": "object", "additionalProperties": True}
_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": "string", "nullable": True}
_ERROR = {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {"message": _TEXT, "type": _TEXT, "param": _TEXT_OR_NULL, "code": _TEXT_OR_NULL},
}
_REFUSAL = {"type": "object", "required": ["error"], "properties": {"error": _ERROR}}
_MODEL = {"type": "string", "description": "The slug of a deployment of the key."}
_PART = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _TEXT, "text": _TEXT},
    "additionalProperties": True,
}
_CONTENT = {
    "anyOf": [_TEXT, {"type": "array", "items": _PART}],
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
_ITEMS = {"anyOf": [_TEXT, {"type": "array", "minItems": 1, "items": _ITEM}]}
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
    "schema": _TEXT,
    "description": "The same key and messages get the same answer, and a closed connection does not stop it.",
}
#: The form of one event.
_EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {**_TEXT, "description": "A chunk as JSON; `[DONE]` at the end."}},
}
_SLUG = {"in": "path", "name": "slug", "required": True, "schema": _TEXT}


def add_v1(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular: these views are no part of REST framework."""
    result["components"].setdefault("securitySchemes", {})["apiKey"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (rsk_…) of staff's making.",
    }
    refusals = (400, 401, 403, 404, 409, 413, 422, 429, 502, 503, 504)
    completion = _operation("v1_chat_completions", refusals, _IDEMPOTENCY_KEY)
    completion["requestBody"] = {"required": True, "content": _json(_REQUEST)}
    result["paths"] |= {
        "/v1/models": {"get": _operation("v1_models", (401,))},
        "/v1/models/{slug}": {"get": _operation("v1_model", (401, 404), _SLUG)},
        "/v1/chat/completions": {"post": _streamable(completion)},
        "/v1/completions": {"post": _streamable(_asked("v1_completions", refusals, prompt=_TEXT))},
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
    operation = _operation(name, refusals)
    operation["requestBody"] = {"required": True, "content": _json(schema)}
    return operation


def _streamable(operation: dict[str, Any]) -> dict[str, Any]:
    """The same, whose answer can be asked for as events."""
    body = operation["requestBody"]["content"]["application/json"]
    properties = {**body["schema"]["properties"], "stream": {"type": "boolean", "default": False}}
    body["schema"] = {**body["schema"], "properties": properties}
    operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": _EVENT}
    return operation


def _operation(name: str, refusals: tuple[int, ...], *parameters: dict[str, Any]) -> dict[str, Any]:
    refused = {"description": "OpenAI's error object.", "content": _json(_REFUSAL)}
    return {
        "operationId": name,
        "tags": ["v1"],
        "security": [{"apiKey": []}],
        "parameters": list(parameters),
        "responses": {"200": {"description": "As OpenAI's.", "content": _json(_OBJECT)}}
        | {str(status): refused for status in refusals},
    }
