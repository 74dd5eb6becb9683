"""An MCP server that does what servers should not, and what few do: hand-written, since the SDK would refuse to.

    python strange_mcp.py [malformed]     over stdio, protocol 2025-06-18

Its tools are described wrongly (`TOOLS`), and each call ends in a way of its own (`answered`).
"""

import json
import os
import sys
from typing import Any

TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {}}
READS = {"readOnlyHint": True}


def tool(name: Any, schema: Any = OBJECT, **more: Any) -> dict[str, Any]:
    told = {"name": name, "description": f"Does {name}.", "inputSchema": schema}
    return {**told, "annotations": READS, **more}


TOOLS: list[Any] = [
    # Fit once rewritten.
    tool("no_items", {"type": "object", "properties": {"names": {"type": "array"}}}),
    tool(
        "two_ways", {"type": "object", "properties": {"a": TEXT}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    ),
    tool(
        "circle",
        {
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}},
        },
    ),
    # Not to be used.
    tool("elsewhere", {"type": "object", "properties": {"x": {"$ref": "https://example.org/x"}}}),
    tool("huge", {"type": "object", "properties": {"x": {"enum": ["y" * 60_000]}}}),
    tool("only_as_task", execution={"taskSupport": "required"}),
    # Dangerous unless they say otherwise.
    tool("silent", annotations=None),
    tool("writes", annotations={"readOnlyHint": False}),
    tool("writes_gently", annotations={"destructiveHint": False}),
    tool("contradicts", annotations={"readOnlyHint": True, "destructiveHint": True}),
    # Called.
    tool("wants_foo"),
    tool("breaks_down"),
    tool("says_other", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    tool("nonsense"),
    tool("everything"),
    tool("picture"),
    tool("echoes"),
    tool("nul", description="Does\0 it."),
]


def answered(name: str) -> dict[str, Any]:
    """What a call comes to: `result` or `error`."""
    blob = {"uri": "file:///b.pdf", "mimeType": "application/pdf", "blob": "JVBERi0x"}
    match name:
        case "wants_foo":
            return error(-32602, "field 'foo' is required, write foo=1")
        case "breaks_down":
            return error(-32603, "the database of books is closed on Mondays")
        case "says_other":
            return {"result": {"content": [text("five")], "structuredContent": {"n": "five"}}}
        case "nonsense":
            return {"result": {"content": [{"type": "text"}]}}
        case "everything":
            readable = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "The shelf is red."}
            link = {"type": "resource_link", "uri": "file:///c.txt", "name": "c", "description": "More."}
            resources = [{"type": "resource", "resource": each} for each in (readable, blob)]
            return {"result": {"content": [text("See:"), *resources, link]}}
        case "picture":
            picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
            return {"result": {"content": [picture], "structuredContent": {"taken": True}}}
        case "echoes":
            return {"result": {"content": [text(f"Authorization was {os.environ.get('LIBRARY_KEY')}")]}}
        case "nul":
            return {"result": {"content": [text("The shelf is\0 red.")]}}
    return {"result": {"content": [text("done")]}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def main() -> None:
    def send(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    for line in sys.stdin:
        request = json.loads(line)
        method, params = request.get("method"), request.get("params") or {}
        if "id" not in request:
            continue
        if method == "initialize":
            about = {"name": "strange", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {}}
            said = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}
            outcome: dict[str, Any] = {"result": said}
        elif method == "tools/list":
            outcome = {
                "result": {
                    "tools": [*TOOLS, tool("not_an_object", {"type": "string"})] if "malformed" in sys.argv else TOOLS
                }
            }
        elif method == "tools/call":
            outcome = answered(params["name"])
        elif method == "ping":
            outcome = {"result": {}}
        else:
            outcome = error(-32601, "Method not found")
        send({"id": request["id"], **outcome})


if __name__ == "__main__":
    main()
