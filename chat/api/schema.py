"""What `/api/schema/` says of the views of `/api/rag`, which are no part of REST framework, and an example of each body,
which a site with a deployment `demo` takes as it stands. `/v1` is described by OpenAI.
"""

import json
from pathlib import Path
from typing import Any

#: What is described here, by name; `batch` and `messages` are also what the batch endpoint checks.
SCHEMAS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: By operation.
EXAMPLES: dict[str, dict[str, Any]] = SCHEMAS["examples"]


def add_questions(result: dict[str, Any], **_context: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular."""
    events, turn, csrf = SCHEMAS["events"], SCHEMAS["turn"], SCHEMAS["csrf"]
    chat = _operation("rag_chat", "200", events, csrf)
    chat["requestBody"] = {"required": True, "content": {"application/json": {"schema": SCHEMAS["question"]}}}
    below = "/api/rag/turns/{turn_id}/"
    result["paths"] |= {
        "/api/rag/chat": {"post": chat},
        f"{below}events": {"get": _operation("turn_events", "200", events, turn, SCHEMAS["after"])},
        f"{below}retry": {"post": _operation("turn_retry", "200", events, turn, csrf)},
        f"{below}stop": {"post": _operation("turn_stop", "202", SCHEMAS["stopped"], turn, csrf)},
    }
    for path, operations in result["paths"].items():
        for operation in operations.values():
            if path.endswith("/messages/batch"):
                operation["parameters"] += SCHEMAS["batch_headers"]
            if "chat-sessions" in path:
                for status in {"200", "409"} & operation["responses"].keys():
                    operation["responses"][status]["headers"] = {"ETag": SCHEMAS["etag"]}
            if path.startswith("/api/"):
                operation["responses"] |= dict.fromkeys(("4XX", "503"), SCHEMAS["refused"])
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
