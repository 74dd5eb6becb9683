"""Tools of an HTTP service described by an OpenAPI 3 document: one for each operation that staff chose.

The document is foreign text: references are followed inside it only, its size and depth are bounded, and what cannot be
described to a model is left out with its reason. A call goes to the service's own server, which must be an allowed
host. Operations that change something (anything but GET and HEAD) need a person's approval unless staff say otherwise.

An alias of YAML costs nothing to write and its whole target each time that it is read. So events are counted first, then
the text is composed (aliases are references there), its size with every alias written out is counted, and only then are
values made of it. Arguments cannot climb the path, leave the allowed hosts or set a header that the source or HTTP sets.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, urljoin

import httpx2
import yaml

from agents.network import check_url, guarded_client, host_of
from agents.texts import read_json, storable_value
from tools_registry.errors import (
    ToolDefinitionError,
    ToolFailedError,
    ToolReportedError,
    ToolServerError,
    ToolSourceError,
    ToolTimeoutError,
)
from tools_registry.sources.base import DeclaredTool, OnProgress, ReadTools, SourceAddress, reach_of, resolved_headers
from tools_registry.sources.fitting import fitted, target_of
from tools_registry.tool import Arguments, ToolImage

TOOL_MAX_DOCUMENT_BYTES = 30_000_000

#: Nodes of a YAML document with its aliases written out: some 5 MB of text.
MOST_NODES = 200_000
#: Numbers and dates; a longer one is a text that was not quoted, and a long number takes the square of its length to
#: read.
LONGEST_PLAIN_VALUE = 100
#: libyaml composes by recursion in C, without a limit of its own: 100,000 brackets ended the process.
DEEPEST = 100
_TEXT = "tag:yaml.org,2002:str"
#: libyaml's reader is ten times faster, and optional in the package.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parsed(text: str) -> Any:
    """What the document says, in texts that can be stored. Raises `ToolSourceError`, also for one that would become too
    large.
    """
    try:
        return read_json(text) if text.lstrip().startswith("{") else storable_value(_yaml(text))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ToolSourceError(f"The document is neither JSON nor YAML: {error}") from error


def _yaml(text: str) -> Any:
    _count_events(text)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _written_out(root) > MOST_NODES:
            raise ToolSourceError(f"The document holds more than {MOST_NODES} values once its aliases are written out.")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _count_events(text: str) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise ToolSourceError(f"The document is nested deeper than {DEEPEST} levels.")
        if number > 2 * MOST_NODES:
            raise ToolSourceError(
                f"The document holds more than {MOST_NODES} values: give it as JSON, which is read whole."
            )


def _written_out(root: yaml.Node) -> int:
    """The nodes of the document, those behind an alias as often as they are named; each node is looked at once."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    pending = [root]
    while pending:
        node = pending[-1]
        if id(node) in sizes:
            pending.pop()
        elif id(node) in open_:
            open_.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in _children(node))
            pending.pop()
        else:
            open_.add(id(node))
            for child in _children(node):
                if id(child) in open_:
                    raise ToolSourceError("The document holds an alias of itself.")
                pending.append(child)
    return sizes[id(root)]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif node.tag != _TEXT and len(node.value) > LONGEST_PLAIN_VALUE:
        raise ToolSourceError(f"A value of more than {LONGEST_PLAIN_VALUE} characters needs quotes.")


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


_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
_READING = ("get", "head", "options")
_MOST_OPERATIONS = 1_500
#: Tags and paths named where there are too many operations.
_NAMED = 30
#: What a tool's arguments may not set.
_RESERVED_HEADERS = {"host", "authorization", "cookie", "content-length", "content-type", "accept"}
_VARIABLE = re.compile(r"{([^{}]+)}")
_SEPARATORS = {"spaceDelimited": " ", "tabDelimited": "\t", "pipeDelimited": "|"}
_JSON = re.compile(r"application/([\w.+-]+\+)?json|\*/\*")


def read_document(address: SourceAddress, on_progress: OnProgress | None = None) -> ReadTools:
    """The chosen operations of the source's document, fetched from its address where it is not given."""
    document = _document(address.document or _fetch(address))
    base = _server(document, address)
    operations = list(_operations(document))
    chosen = [operation for operation in operations if operation.is_among(address.chosen)]
    if operations and not chosen:
        raise ToolSourceError(f"None of the {len(operations)} operations is chosen. {_ways(operations)}")
    if len(chosen) > _MOST_OPERATIONS:
        raise ToolSourceError(
            f"The document has {len(chosen)} operations, and {_MOST_OPERATIONS} are read at most: "
            f"choose paths or tags. {_ways(operations)}"
        )
    read = ReadTools()
    for number, operation in enumerate(chosen, start=1):
        try:
            read.tools.append(_tool(document, base, operation))
        except ToolDefinitionError as error:
            read.refused.append((operation.name, str(error)))
        except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as error:
            # What nobody thought of: the other operations are as good as before.
            read.refused.append((operation.name, f"not described as expected ({error})"))
        if on_progress is not None:
            on_progress(number, len(chosen))
    return read


def _ways(operations: "list[_Operation]") -> str:
    """What can be chosen, for staff."""
    tags = Counter(tag for operation in operations for tag in operation.tags)
    roots = Counter("/" + operation.path.strip("/").split("/")[0] for operation in operations)
    found = [(f"tag:{tag}", count) for tag, count in tags.most_common(_NAMED)] or [
        (f"{root}*", count) for root, count in roots.most_common(_NAMED)
    ]
    return "For example: " + ", ".join(f"{way} ({count})" for way, count in found) + "."


def _fetch(address: SourceAddress) -> str:
    allowed = [*address.allowed_hosts, host_of(address.url, ToolSourceError)]
    try:
        with client_of(address, allowed, max_bytes=TOOL_MAX_DOCUMENT_BYTES) as client:
            response = client.get(address.url)
    except httpx2.HTTPError as error:
        raise ToolSourceError(f"The document cannot be fetched: {type(error).__name__}.") from error
    if response.status_code != 200:
        raise ToolSourceError(f"The document cannot be fetched: HTTP {response.status_code}.")
    return response.text


def _document(text: str) -> dict[str, Any]:
    document = parsed(text)
    if not isinstance(document, dict):
        raise ToolSourceError("The document is not an OpenAPI document.")
    if not str(document.get("openapi", "")).startswith("3."):
        raise ToolSourceError(
            "The document is not OpenAPI 3: it needs 'openapi: 3.…' at its top. Convert one of Swagger 2.0."
        )
    return document


def _server(document: Mapping[str, Any], address: SourceAddress) -> str:
    """The first of the document's servers that is an allowed host; raises saying what the first one lacks."""
    servers = document.get("servers")
    named = [each for each in servers if isinstance(each, dict)] if isinstance(servers, list) else []
    refused: ToolSourceError | None = None
    for server in named or [{"url": "/"}]:
        try:
            return _reachable(server, address)
        except ToolSourceError as error:
            refused = refused or error
    raise refused or ToolSourceError("The document names no server.")


def _reachable(server: Mapping[str, Any], address: SourceAddress) -> str:
    variables = server.get("variables")

    def default(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, dict) else None
        value = variable.get("default") if isinstance(variable, dict) else None
        if value is None:
            raise ToolSourceError(
                f"The document's server has the variable {match[1]!r} without a default; write its whole address."
            )
        return str(value)

    written = _VARIABLE.sub(default, str(server.get("url", "/")))
    if written.startswith("//") and not address.url:
        written = f"https:{written}"
    url = urljoin(address.url, written)
    if "//" not in url:
        raise ToolSourceError(
            f"The document's server is {written!r}, without a host: give the document's address beside its text, "
            "or write the server's whole address in it."
        )
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

    @property
    def tags(self) -> list[str]:
        tags = self.described.get("tags")
        return [str(tag) for tag in tags] if isinstance(tags, list) else []

    def is_among(self, chosen: tuple[str, ...]) -> bool:
        """Whether a line of staff's names it: `tag:issues`, `/repos/*`, `GET /repos/*`, or its own name. No line: all."""
        names = [self.path, f"{self.method.upper()} {self.path}", self.name]
        names += [f"tag:{tag}" for tag in self.tags]
        return not chosen or any(fnmatchcase(name.lower(), line.lower()) for line in chosen for name in names)


def _operations(document: Mapping[str, Any]) -> Iterator[_Operation]:
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        if not isinstance(item, dict):
            continue
        shared = item.get("parameters")
        for method in _METHODS:
            described = item.get(method)
            if isinstance(described, dict):
                yield _Operation(str(path), method, described, shared if isinstance(shared, list) else [])


def _tool(document: Mapping[str, Any], base: str, operation: _Operation) -> DeclaredTool:
    inputs = _inputs(document, operation)
    body = _add_body(inputs, document, operation.described)
    texts = (operation.described.get(key) for key in ("summary", "description"))
    return DeclaredTool(
        name=operation.name,
        description="\n\n".join(str(text) for text in texts if text),
        parameters=fitted(
            {
                "type": "object",
                "properties": inputs.properties,
                "required": inputs.required,
                "additionalProperties": False,
            },
            document,
        ),
        operation={
            "method": operation.method,
            "url": base + operation.path,
            "places": inputs.places,
            **({"joined": inputs.joined} if inputs.joined else {}),
            "has_body": body is not None,
            **(body or {}),
        },
        needs_approval=operation.method not in _READING,
    )


@dataclass(slots=True)
class _Inputs:
    """What an operation takes: the schema of each argument, those required, and where each goes in the request.

    The lists `joined` are sent as one value, with this sign between.
    """

    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)


def _at(document: Mapping[str, Any], node: Any) -> Any:
    """What a node of the document is, its own reference followed; those inside it are left."""
    for _step in range(10):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str):
            return node
        node = target_of(document, reference)
    raise ToolDefinitionError("A reference refers to itself.")


def _inputs(document: Mapping[str, Any], operation: _Operation) -> _Inputs:
    """The parameters that a model may fill; raises where the path has one that is not described."""
    inputs = _Inputs()
    for (parameter, place), item in _parameters(document, operation).items():
        if place not in ("path", "query", "header") or (place == "header" and parameter.lower() in _RESERVED_HEADERS):
            continue
        schema, text = item.get("schema"), item.get("description")
        inputs.properties[parameter] = {
            **(schema if isinstance(schema, dict) else {}),
            **({"description": str(text)} if text else {}),
        }
        inputs.places[parameter] = place
        if place == "query" and (separator := _separator(item)):
            inputs.joined[parameter] = separator
        if place == "path" or item.get("required") is True:
            inputs.required.append(parameter)
    missing = [part for part in _VARIABLE.findall(operation.path) if inputs.places.get(part) != "path"]
    if missing:
        raise ToolDefinitionError(f"The path has parameters without description: {missing[0]}.")
    return inputs


def _separator(item: Mapping[str, Any]) -> str:
    """What the values of a list are joined by; empty: each is sent by itself."""
    style = str(item.get("style", "form"))
    is_joined = item.get("explode", style not in _SEPARATORS) is False
    return _SEPARATORS.get(style, ",") if is_joined else ""


def _parameters(document: Mapping[str, Any], operation: _Operation) -> dict[tuple[str, str], dict[str, Any]]:
    """By name and place; an operation's own parameter replaces the path's of the same name."""
    own = operation.described.get("parameters")
    described = [_at(document, item) for item in [*operation.shared, *(own if isinstance(own, list) else [])]]
    return {
        (str(item["name"]), str(item.get("in"))): item
        for item in described
        if isinstance(item, dict) and "name" in item
    }


def _add_body(inputs: _Inputs, document: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any] | None:
    """Add the body as one more argument; how it is sent where that is not as JSON, `None` where the operation has none.

    JSON before a form, a form before one with files: a file is what the model writes, as a text.
    """
    body = _at(document, operation.get("requestBody"))
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, dict):
        return None
    media = {str(kind).split(";")[0].strip(): each for kind, each in content.items()}
    kinds = [kind for kind in media if _JSON.fullmatch(kind)]
    kinds += [kind for kind in (FORM, MULTIPART) if kind in media]
    is_required = body.get("required") is True
    if not kinds:
        if is_required:
            raise ToolDefinitionError(
                f"The body is {', '.join(list(media)[:3]) or 'not described'}: only JSON and forms are sent."
            )
        return None
    if BODY in inputs.properties:
        raise ToolDefinitionError("A parameter has the name of the body.")
    sent = media[kinds[0]] if isinstance(media[kinds[0]], dict) else {}
    schema, encoding = sent.get("schema"), sent.get("encoding")
    inputs.properties[BODY] = schema if isinstance(schema, dict) else {}
    inputs.required.extend([BODY] if is_required else [])
    if kinds[0] not in (FORM, MULTIPART):
        return {}
    fields = fitted(schema, document).get("properties", {})
    files = [name for name, inner in fields.items() if inner.get("format") in ("binary", "byte")]
    joined = {
        str(name): separator
        for name, item in (encoding.items() if isinstance(encoding, dict) else ())
        if isinstance(item, dict) and (separator := _separator(item))
    }
    return {"body_kind": kinds[0], "files": files, **({"body_joined": joined} if joined else {})}
