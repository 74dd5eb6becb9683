"""What `/api/schema/` says of `/v1`: enough to find it and to call it; OpenAI's own reference has the rest."""

from typing import Any

_OBJECT = {"type": "object", "additionalProperties": True}
_ERROR = {
    "description": "OpenAI's error object.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {
                        "type": "object",
                        "required": ["message", "type", "param", "code"],
                        "properties": {
                            "message": {"type": "string"},
                            "type": {"type": "string"},
                            "param": {"type": "string", "nullable": True},
                            "code": {"type": "string", "nullable": True},
                        },
                    }
                },
            }
        }
    },
}
_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "additionalProperties": True,
    "properties": {
        "model": {"type": "string", "description": "The slug of a deployment of the key."},
        "messages": {"type": "array", "minItems": 1, "items": _OBJECT},
        "stream": {"type": "boolean", "default": False},
        "stream_options": {
            "type": "object",
            "properties": {"include_usage": {"type": "boolean"}},
        },
    },
}
_IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string"},
    "description": "The same key and messages get the same answer, and a closed connection does not stop it.",
}
_SLUG = {"in": "path", "name": "slug", "required": True, "schema": {"type": "string"}}


def add_v1(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular: these views are no part of REST framework."""
    result["components"].setdefault("securitySchemes", {})["apiKey"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (rsk_…) of staff's making.",
    }
    result["paths"] |= {
        "/v1/models": {"get": _operation("v1_models", (401,))},
        "/v1/models/{slug}": {"get": _operation("v1_model", (401, 404), parameters=[_SLUG])},
        "/v1/chat/completions": {
            "post": {
                **_operation(
                    "v1_chat_completions",
                    (400, 401, 403, 404, 409, 413, 422, 429, 502, 503, 504),
                    parameters=[_IDEMPOTENCY_KEY],
                    streamed=True,
                ),
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _REQUEST}},
                },
            }
        },
    }
    return result


def _operation(
    name: str,
    refusals: tuple[int, ...],
    *,
    parameters: list[dict[str, Any]] | None = None,
    streamed: bool = False,
) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": _OBJECT}}
    if streamed:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        "operationId": name,
        "tags": ["v1"],
        "security": [{"apiKey": []}],
        "parameters": parameters or [],
        "responses": {"200": {"description": "As OpenAI's.", "content": content}}
        | {str(status): _ERROR for status in refusals},
    }
