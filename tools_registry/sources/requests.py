"""Requests to an HTTP service that a document describes: what a tool's arguments become, and what comes back.

Arguments cannot climb the path, leave the allowed hosts or set a header that the source or HTTP itself sets. What the
service answers is told to the model as text; what is neither text nor image is named.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx2

from agents.network import guarded_client, host_of
from tools_registry.exceptions import ToolFailedError, ToolReportedError, ToolServerError, ToolTimeoutError
from tools_registry.sources.base import SourceAddress
from tools_registry.sources.network import reach_of, resolved_headers
from tools_registry.tool import Arguments, ToolImage

BODY = "body"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
#: Bytes of an answer that are looked at where it does not say what it is.
_SAMPLE = 1_000
_TEXTUAL = re.compile(r"text/|[/+](?:json|xml|yaml|javascript|csv|x-www-form-urlencoded)\b")
_Pairs = list[tuple[str, str | int | float | bool | None]]


def call_operation(address: SourceAddress, operation: Mapping[str, Any], arguments: Arguments) -> object:
    """Make the request; the answer's status and body. Raises `ToolReportedError` where the service says that the
    request is wrong, `ToolServerError` where it says that it failed itself."""
    url, query, headers = _request_parts(operation, arguments)
    try:
        with client_of(address, address.allowed_hosts) as client:
            response = client.request(
                str(operation["method"]).upper(),
                url,
                params=query,
                headers={"Accept": "application/json, text/*;q=0.5", **headers},
                **_body(operation, arguments),
            )
    except httpx2.TimeoutException as error:
        raise ToolTimeoutError(f"{host_of(url)} did not answer in time.") from error
    except httpx2.HTTPError as error:
        raise ToolFailedError(f"{host_of(url)}: {type(error).__name__}") from error
    if response.is_redirect:
        raise ToolReportedError(f"HTTP {response.status_code}: redirects are not followed.")
    if response.status_code > 299:
        kind = ToolServerError if response.status_code > 499 else ToolReportedError
        raise kind(f"HTTP {response.status_code}: {_told(response)}")
    return {"status": response.status_code, "body": _answered(response)}


def client_of(address: SourceAddress, allowed: Sequence[str], *, max_bytes: int | None = None) -> httpx2.Client:
    headers = resolved_headers(address.headers)
    return guarded_client(reach_of(allowed, max_bytes=max_bytes), timeout=address.timeout_seconds, headers=headers)


def _body(operation: Mapping[str, Any], arguments: Arguments) -> dict[str, Any]:
    """The body as the client takes it; what has a file goes as a form of parts."""
    value, kind = arguments.get(BODY), operation.get("body_kind", "")
    if value is None or not operation.get("has_body"):
        return {}
    if kind not in (FORM, MULTIPART) or not isinstance(value, dict):
        return {"json": value}
    given = {name: inner for name, inner in value.items() if inner is not None}
    files = set(operation.get("files") or ()) if kind == MULTIPART else set()
    joined = operation.get("body_joined") or {}
    fields = {name: _values(inner, joined.get(name, "")) for name, inner in given.items() if name not in files}
    if kind == FORM:
        return {"data": fields}
    parts = [
        (name, (f"{name}.txt", _text(inner).encode(), "text/plain")) for name, inner in given.items() if name in files
    ]
    plain = [(name, (None, item.encode())) for name, inner in fields.items() for item in inner]
    return {"files": [*plain, *parts]}


def _request_parts(operation: Mapping[str, Any], arguments: Arguments) -> tuple[str, _Pairs, dict[str, str]]:
    url, headers = str(operation["url"]), {}
    query: _Pairs = []
    joined = _joined(operation)
    for name, place in operation["places"].items():
        if name not in arguments:
            continue
        value = arguments[name]
        if place == "path":
            text = _text(value)
            if text in ("", ".", ".."):
                raise ToolReportedError(f"{name} cannot stand in an address.")
            url = url.replace(f"{{{name}}}", quote(text, safe=""))
        elif place == "query":
            query.extend((name, item) for item in _values(value, joined.get(name, "")))
        else:
            headers[name] = _text(value).replace("\r", " ").replace("\n", " ")
    return url, query, headers


def _joined(operation: Mapping[str, Any]) -> dict[str, str]:
    """Between the values of which lists of a query what is written."""
    said = operation.get("joined") or {}
    return said if isinstance(said, dict) else dict.fromkeys(said, ",")


def _values(value: object, separator: str) -> list[str]:
    """The texts of a value, or of a list's; with a separator as one."""
    texts = [_text(item) for item in (value if isinstance(value, list) else [value])]
    return [separator.join(texts)] if separator else texts


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _answered(response: httpx2.Response) -> object:
    if "json" in response.headers.get("content-type", ""):
        try:
            return response.json()
        except ValueError:
            pass
    return _told(response)


def _told(response: httpx2.Response) -> str | ToolImage:
    """The text of an answer, or its image; what is neither is named."""
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    content = response.content
    if not content or _TEXTUAL.search(kind):
        return response.text
    if not kind and b"\0" not in content[:_SAMPLE]:
        return response.text
    if kind.startswith("image/"):
        return ToolImage(kind, base64.b64encode(content).decode())
    return f"({kind or 'unknown kind'}, {len(content)} bytes: not a text, not shown)"
