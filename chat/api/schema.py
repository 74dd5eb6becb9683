"""What `/api/schema/` says of the views of `/api/rag`, which are no part of REST framework, and an example of each body,
which a site with a deployment `demo` takes as it stands. `/v1` is described by OpenAI.
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
        "event": {"enum": ["meta", "sources", "delta", "restart", "tool", "done", "error"]},
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
}


def add_questions(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular."""
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
