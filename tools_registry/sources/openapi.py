"""Tools of an HTTP service described by an OpenAPI 3 document: one for each operation.

The document is foreign text: references are followed inside it only, its size and depth are bounded, and what cannot be
described as a JSON schema is left out with its reason. A call goes to the service's own server, which must be an allowed
host. Operations that change something (anything but GET and HEAD) need a person's approval unless staff say otherwise.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin

import httpx2

from agents.network import check_url, guarded_client, host_of
from tools_registry.exceptions import (
    ToolDefinitionError,
    ToolFailedError,
    ToolReportedError,
    ToolSourceError,
    ToolTimeoutError,
)
from tools_registry.schema import checked_schema
from tools_registry.sources.base import DeclaredTool, SourceAddress
from tools_registry.sources.documents import parsed
from tools_registry.sources.network import reach_of, resolved_headers
from tools_registry.tool import Arguments

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
_READING = ("get", "head", "options")
#: The nodes that one operation's schemas may hold once their references are replaced.
_MOST_NODES = 20_000
_DEEPEST = 60
_MOST_OPERATIONS = 1_000
_BODY = "body"
#: What a tool's arguments may not set.
_RESERVED_HEADERS = {"host", "authorization", "cookie", "content-length", "content-type", "accept"}
_EXCERPT = 1_000


@dataclass(slots=True)
class ReadDocument:
    """The operations of a document, and those that were left out with the reason."""

    tools: list[DeclaredTool] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


def read_document(address: SourceAddress) -> ReadDocument:
    """The operations of the source's document, fetched from its address where it is not given."""
    text = address.document or _fetch(address)
    document = _document(text)
    base = _server(document, address)
    read = ReadDocument()
    for operation in _operations(document):
        try:
            read.tools.append(_tool(_Resolver(document), base, operation))
        except ToolDefinitionError as error:
            read.refused.append((operation.name, str(error)))
        if len(read.tools) > _MOST_OPERATIONS:
            raise ToolSourceError(f"The document has more than {_MOST_OPERATIONS} operations.")
    return read


def call_operation(
    address: SourceAddress, operation: Mapping[str, Any], arguments: Arguments
) -> object:
    """Make the request; the answer's status and body. An answer above 299 is a `ToolReportedError`."""
    url, query, headers = _request_parts(operation, arguments)
    body = arguments.get(_BODY) if operation.get("has_body") else None
    try:
        with _client(address, address.allowed_hosts) as client:
            response = client.request(
                str(operation["method"]).upper(),
                url,
                params=query,
                headers={"Accept": "application/json, text/*;q=0.5", **headers},
                **({} if body is None else {"json": body}),
            )
    except httpx2.TimeoutException as error:
        raise ToolTimeoutError(f"{host_of(url)} did not answer in time.") from error
    except httpx2.HTTPError as error:
        raise ToolFailedError(f"{host_of(url)}: {type(error).__name__}") from error
    if response.is_redirect:
        raise ToolReportedError(f"HTTP {response.status_code}: redirects are not followed.")
    if response.status_code > 299:
        raise ToolReportedError(f"HTTP {response.status_code}: {response.text[:_EXCERPT]}")
    return {"status": response.status_code, "body": _body_of(response)}


def _client(address: SourceAddress, allowed: Sequence[str]) -> httpx2.Client:
    headers = resolved_headers(address.headers)
    return guarded_client(reach_of(allowed), timeout=address.timeout_seconds, headers=headers)


def _fetch(address: SourceAddress) -> str:
    allowed = [*address.allowed_hosts, host_of(address.url, ToolSourceError)]
    try:
        with _client(address, allowed) as client:
            response = client.get(address.url)
    except httpx2.HTTPError as error:
        raise ToolSourceError(f"The document cannot be fetched: {type(error).__name__}.") from error
    if response.status_code != 200:
        raise ToolSourceError(f"The document cannot be fetched: HTTP {response.status_code}.")
    return response.text


def _document(text: str) -> dict[str, Any]:
    document = parsed(text)
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        raise ToolSourceError("The document is not an OpenAPI document of version 3.")
    return document


def _server(document: Mapping[str, Any], address: SourceAddress) -> str:
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    url = urljoin(address.url, str(first.get("url", "/")) if isinstance(first, dict) else "/")
    if "{" in url:
        raise ToolSourceError("The document's server has variables; write its whole address.")
    check_url(url, reach_of(address.allowed_hosts))
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class _Operation:
    """What the document says of one method of one path; `shared` are the parameters of all methods of that path."""

    path: str
    method: str
    described: Mapping[str, Any]
    shared: list[Any]

    @property
    def name(self) -> str:
        return str(self.described.get("operationId") or f"{self.method}_{self.path}")


def _operations(document: Mapping[str, Any]) -> Iterator[_Operation]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if not isinstance(item, dict):
            continue
        shared = item.get("parameters")
        for method in _METHODS:
            described = item.get(method)
            if isinstance(described, dict):
                yield _Operation(
                    str(path), method, described, shared if isinstance(shared, list) else []
                )


def _tool(resolver: "_Resolver", base: str, operation: _Operation) -> DeclaredTool:
    inputs = _inputs(resolver, operation)
    has_body = _add_body(inputs, resolver, operation.described)
    texts = (operation.described.get(key) for key in ("summary", "description"))
    return DeclaredTool(
        name=operation.name,
        description="\n\n".join(str(text) for text in texts if text),
        parameters=checked_schema(
            {
                "type": "object",
                "properties": inputs.properties,
                "required": inputs.required,
                "additionalProperties": False,
            }
        ),
        operation={
            "method": operation.method,
            "url": base + operation.path,
            "places": inputs.places,
            "has_body": has_body,
        },
        needs_approval=operation.method not in _READING,
    )


@dataclass(slots=True)
class _Inputs:
    """What an operation takes: the schema of each argument, those required, and where each goes in the request."""

    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)


def _inputs(resolver: "_Resolver", operation: _Operation) -> _Inputs:
    """The parameters that a model may fill; raises where the path has one that is not described."""
    inputs = _Inputs()
    for (parameter, place), item in _parameters(resolver, operation).items():
        if place not in ("path", "query", "header") or (
            place == "header" and parameter.lower() in _RESERVED_HEADERS
        ):
            continue
        schema, text = item.get("schema"), item.get("description")
        inputs.properties[parameter] = {
            **(_converted(schema) if isinstance(schema, dict) else {}),
            **({"description": str(text)} if text else {}),
        }
        inputs.places[parameter] = place
        if place == "path" or item.get("required") is True:
            inputs.required.append(parameter)
    missing = [
        part
        for part in re.findall(r"{([^}]+)}", operation.path)
        if inputs.places.get(part) != "path"
    ]
    if missing:
        raise ToolDefinitionError(f"The path has parameters without description: {missing[0]}.")
    return inputs


def _parameters(
    resolver: "_Resolver", operation: _Operation
) -> dict[tuple[str, str], dict[str, Any]]:
    """By name and place; an operation's own parameter replaces the path's of the same name."""
    own = operation.described.get("parameters")
    described = [
        resolver.resolve(item)
        for item in [*operation.shared, *(own if isinstance(own, list) else [])]
    ]
    return {
        (str(item["name"]), str(item.get("in"))): item
        for item in described
        if isinstance(item, dict) and "name" in item
    }


def _add_body(inputs: _Inputs, resolver: "_Resolver", operation: Mapping[str, Any]) -> bool:
    """Add the body as one more argument; false where the operation has none."""
    body = _body_schema(resolver, operation)
    if body is None:
        return False
    if _BODY in inputs.properties:
        raise ToolDefinitionError("A parameter has the name of the body.")
    inputs.properties[_BODY], is_required = body
    inputs.required.extend([_BODY] if is_required else [])
    return True


def _body_schema(
    resolver: "_Resolver", operation: Mapping[str, Any]
) -> tuple[dict[str, Any], bool] | None:
    body = resolver.resolve(operation.get("requestBody"))
    if not isinstance(body, dict):
        return None
    content = body.get("content")
    for kind, media in content.items() if isinstance(content, dict) else ():
        if re.fullmatch(r"application/([\w.+-]+\+)?json", str(kind).split(";")[0].strip()):
            schema = media.get("schema") if isinstance(media, dict) else None
            return (
                _converted(schema) if isinstance(schema, dict) else {},
                body.get("required") is True,
            )
    if body.get("required") is True:
        raise ToolDefinitionError("The body is not JSON.")
    return None


class _Resolver:
    """Replaces references by what they refer to inside the document, within bounds."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._nodes = 0

    def resolve(self, node: Any, depth: int = 0) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > _DEEPEST:
            raise ToolDefinitionError("The schema is too large, or refers to itself.")
        if isinstance(node, list):
            return [self.resolve(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str):
            return self.resolve(self._target(reference), depth + 1)
        return {str(key): self.resolve(value, depth + 1) for key, value in node.items()}

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ToolDefinitionError(f"The reference {reference[:100]!r} leaves the document.")
        found: Any = self._document
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise ToolDefinitionError(f"The reference {reference[:100]!r} leads nowhere.")
            found = found[key]
        return found


def _converted(schema: Any) -> Any:
    """A schema of OpenAPI 3.0 in the words of JSON Schema; those of 3.1 are already."""
    if isinstance(schema, list):
        return [_converted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _converted(value) for key, value in schema.items() if key != "nullable"}
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        made["type"] = [schema["type"], "null"]
    for bound in ("Minimum", "Maximum"):
        if isinstance(made.get(f"exclusive{bound}"), bool):
            if made.pop(f"exclusive{bound}"):
                made[f"exclusive{bound}"] = made.pop(bound.lower(), 0)
    return made


def _request_parts(
    operation: Mapping[str, Any], arguments: Arguments
) -> tuple[str, list[tuple[str, str | int | float | bool | None]], dict[str, str]]:
    url, headers = str(operation["url"]), {}
    query: list[tuple[str, str | int | float | bool | None]] = []
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
            values = value if isinstance(value, list) else [value]
            query.extend((name, _text(item)) for item in values)
        else:
            headers[name] = _text(value).replace("\r", " ").replace("\n", " ")
    return url, query, headers


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _body_of(response: httpx2.Response) -> object:
    if "json" in response.headers.get("content-type", ""):
        try:
            return response.json()
        except ValueError:
            return response.text
    return response.text
