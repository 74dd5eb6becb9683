"""Tools of an HTTP service described by an OpenAPI 3 document: one for each operation that staff chose.

A call goes to an allowed host; its arguments cannot climb the path or set a header that the source or HTTP sets.
Operations other than GET and HEAD need a person's approval unless staff say otherwise.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from urllib.parse import quote, urljoin

import httpx2
import yaml

from agents.network import ask_once, check_url, guarded_client, host_of
from agents.texts import read_json, storable_value
from tools_registry.errors import (
    ToolDefinitionError,
    ToolFailedError,
    ToolReportedError,
    ToolServerError,
    ToolSourceError,
    ToolTimeoutError,
)
from tools_registry.sources.base import (
    RESERVED_HEADERS,
    DeclaredTool,
    ReadTools,
    SourceAddress,
    fitted,
    note_request,
    reach_of,
    resolved_headers,
    target_of,
)
from tools_registry.tool import Arguments

TOOL_MAX_DOCUMENT_BYTES = 30_000_000

#: Values of a YAML document: some 5 MB of text.
MOST_NODES = 200_000
#: A longer number takes the square of its length to read.
LONGEST_NUMBER = 100
#: libyaml composes by recursion in C, without a limit of its own: 100,000 brackets ended the process.
DEEPEST = 100
_LONG_NUMBER = re.compile(rf"[-+0-9._:eExXoa-fA-F]{{{LONGEST_NUMBER + 1},}}")
#: libyaml's reader is ten times faster, and optional in the package.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parsed(text: str) -> Any:
    """Parse JSON or YAML to values that can be stored. Raises `ToolSourceError`, also where they grow too many."""
    try:
        return read_json(text) if text.lstrip().startswith("{") else storable_value(_yaml(text))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ToolSourceError(f"The document is neither JSON nor YAML: {error}") from error


def _yaml(text: str) -> Any:
    """Look at the events first, which cost nothing: an alias costs its whole target each time that it is read."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise ToolSourceError("The document has aliases (*name), which are not read: give it as JSON.")
        if depth > DEEPEST:
            raise ToolSourceError(f"The document is nested deeper than {DEEPEST} levels.")
        if number > 2 * MOST_NODES:
            raise ToolSourceError(f"The document holds more than {MOST_NODES} values: give it as JSON.")
        if isinstance(event, yaml.ScalarEvent) and not event.style and _LONG_NUMBER.fullmatch(event.value):
            raise ToolSourceError(f"A number of more than {LONGEST_NUMBER} characters needs quotes.")
    return yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader


BODY = "body"
FORM = "application/x-www-form-urlencoded"
_Pairs = list[tuple[str, str]]


def call_operation(address: SourceAddress, operation: Mapping[str, Any], arguments: Arguments) -> object:
    """Make the request; the answer's status and body. Raises `ToolReportedError` where the service says that the
    request is wrong, `ToolServerError` where it says that it failed itself."""
    url, query, headers = _request_parts(operation, arguments)
    own = [name.lower() for name in address.headers]
    try:
        response = ask_once(
            client_of(address, address.allowed_hosts, cuts=True),
            str(operation["method"]).upper(),
            url,
            params=query,
            headers={name: value for name, value in headers.items() if name.lower() not in own},
            **_body(operation, arguments),
        )
    except httpx2.TimeoutException as error:
        raise ToolTimeoutError(f"{host_of(url)} did not answer in time.") from error
    except httpx2.HTTPError as error:
        raise ToolFailedError(f"{host_of(url)}: {type(error).__name__}") from error
    response.default_encoding = _encoding
    if response.is_redirect:
        raise ToolReportedError(f"HTTP {response.status_code}: redirects are not followed.")
    if response.status_code > 299:
        kind = ToolServerError if response.status_code > 499 else ToolReportedError
        raise kind(f"HTTP {response.status_code}: {_told(response)}")
    return {"status": response.status_code, "body": _answered(response)}


def client_of(address: SourceAddress, allowed: Sequence[str], **limits: Any) -> httpx2.AsyncClient:
    headers = resolved_headers(address.headers, allowed)
    reach = reach_of(address.headers, allowed, **limits)
    client = guarded_client(reach, timeout=address.timeout_seconds, headers=headers)
    client.event_hooks["request"].append(partial(note_request, address.headers))
    return client


def _body(operation: Mapping[str, Any], arguments: Arguments) -> dict[str, Any]:
    """The body as the client takes it: JSON, or a form."""
    value = arguments.get(BODY)
    if value is None or not operation.get("has_body"):
        return {}
    if operation.get("body_kind") != FORM or not isinstance(value, dict):
        return {"json": value}
    return {"data": {name: _items(inner) for name, inner in value.items() if inner is not None}}


#: How a value is written in each place, and what stands between the items of one text. Label and matrix are not sent.
_OF_QUERIES = ("form", "spaceDelimited", "pipeDelimited", "deepObject")
_STYLES = {"path": ("simple",), "query": _OF_QUERIES, "header": ("simple",), "cookie": ("form",)}
_BETWEEN = {"spaceDelimited": " ", "pipeDelimited": "|"}
_PRINTABLE = "".join(map(chr, range(32, 127)))


def _request_parts(operation: Mapping[str, Any], arguments: Arguments) -> tuple[str, _Pairs, dict[str, str]]:
    """The address, its query and the headers; an argument that is null is left out."""
    url, headers = str(operation["url"]), {"Accept": "application/json, text/*;q=0.5"}
    listed = {"query": _Pairs(), "cookie": _Pairs()}
    for argument, place in operation["places"].items():
        if (value := arguments.get(argument)) is None:
            continue
        form = operation.get("forms", {}).get(argument, {})
        name = form.get("name", argument)
        if form.get("is_json"):
            value = json.dumps(value, ensure_ascii=False)
        if place in listed:
            listed[place] += _pairs(name, value, form)
        elif place == "header":
            headers[name] = quote(_joined(value, form, str), safe=_PRINTABLE)
        elif (text := _joined(value, form, partial(quote, safe=""))) in ("", ".", ".."):
            raise ToolReportedError(f"{name} cannot stand in an address.")
        else:
            url = url.replace(f"{{{name}}}", text)
    if cookies := listed["cookie"]:
        headers["Cookie"] = "; ".join(f"{quote(name, safe='[]')}={quote(text, safe='')}" for name, text in cookies)
    return url, listed["query"], headers


def _pairs(name: str, value: object, form: Mapping[str, Any]) -> _Pairs:
    """A value as a query or cookies write it: one pair for each item or member, or one for all."""
    style, is_object, members = form.get("style", "form"), isinstance(value, dict), _members(name, value)
    if style == "deepObject":
        return [(f"{name}[{key}]" if is_object else name, item) for key, item in members]
    if form.get("explode", style == "form") or not members:
        return members
    texts = [text for member in members for text in (member if is_object else member[1:])]
    return [(name, _BETWEEN.get(style, ",").join(texts))]


def _joined(value: object, form: Mapping[str, Any], encode: Callable[[str], str]) -> str:
    """A value as an address or a header writes it: items with commas."""
    sign = "=" if form.get("explode") else ","
    return ",".join(
        f"{encode(key)}{sign}{encode(item)}" if isinstance(value, dict) else encode(item)
        for key, item in _members("", value)
    )


def _members(name: str, value: object) -> _Pairs:
    """The members of an object, or the items of a list or of one value under one name."""
    named = value if isinstance(value, dict) else {name: value}
    return [(key, item) for key, inner in named.items() for item in _items(inner)]


def _items(value: object) -> list[str]:
    """The text of a value, or those of a list's; none of what is null."""
    return [_text(item) for item in (value if isinstance(value, list) else [value]) if item is not None]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _answered(response: httpx2.Response) -> object:
    if "json" in response.headers.get("content-type", ""):
        try:
            # What JSON has no number for is told in words.
            return json.loads(response.text, parse_constant=str)
        except (ValueError, RecursionError):
            pass
    return _told(response)


def _told(response: httpx2.Response) -> str:
    """The text of an answer, without the marks of HTML; what is no text is named."""
    kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind.startswith("image/") or b"\0" in response.content[:1_000]:
        return f"({kind or 'unknown kind'}, {len(response.content)} bytes: not a text, not shown)"
    if kind == "text/html":
        from bs4 import BeautifulSoup  # 50 ms of each start

        return BeautifulSoup(response.text, "lxml").get_text("\n", strip=True)
    return response.text


def _encoding(content: bytes) -> str:
    """The encoding of a text whose service names none."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return "utf-8" if error.end == len(content) else "cp1252"  # one that was cut within a character
    return "utf-8"


_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
_READING = ("get", "head", "options")
_MOST_OPERATIONS = 1_500
#: What a tool's arguments may not set.
_RESERVED_HEADERS = {*RESERVED_HEADERS, "authorization", "cookie", "content-type", "accept"}
_VARIABLE = re.compile(r"{([^{}]+)}")
_JSON = re.compile(r"application/([\w.+-]+\+)?json|\*/\*")


def read_document(address: SourceAddress) -> ReadTools:
    """The chosen operations of the source's document, fetched from its address where it is not given."""
    document = _document(address.document or _fetch(address))
    base = _server(document, address)
    operations = list(_operations(document))
    chosen = [operation for operation in operations if operation.is_among(address.chosen)]
    if operations and not chosen:
        raise ToolSourceError(f"None of the {len(operations)} operations is chosen.")
    if len(chosen) > _MOST_OPERATIONS:
        raise ToolSourceError(
            f"The document has {len(chosen)} operations, and {_MOST_OPERATIONS} are read at most: choose paths or tags."
        )
    read = ReadTools()
    for operation in chosen:
        try:
            read.tools.append(_tool(document, base, operation))
        except ToolDefinitionError as error:
            read.refused.append((operation.name, str(error)))
        except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as error:
            # What nobody thought of: the other operations are as good as before.
            read.refused.append((operation.name, f"not described as expected ({error})"))
    return read


def _fetch(address: SourceAddress) -> str:
    allowed = [*address.allowed_hosts, host_of(address.url, ToolSourceError)]
    try:
        response = ask_once(client_of(address, allowed, max_bytes=TOOL_MAX_DOCUMENT_BYTES), "GET", address.url)
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
    """The address of the document's first server, its variables at their defaults; raises unless its host is allowed."""
    servers = document.get("servers")
    named = [each for each in servers if isinstance(each, dict)] if isinstance(servers, list) else []
    server = named[0] if named else {"url": "/"}
    variables = server.get("variables")

    def default(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, dict) else None
        return str(variable.get("default", match[0])) if isinstance(variable, dict) else match[0]

    url = urljoin(address.url, _VARIABLE.sub(default, str(server.get("url", "/"))))
    if "//" not in url:
        raise ToolSourceError(
            f"The document's server is {url!r}, without a host: give the document's address beside its text, "
            "or write the server's whole address in it."
        )
    check_url(url, reach_of(address.headers, address.allowed_hosts))
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
            **({"forms": inputs.forms} if inputs.forms else {}),
            "has_body": body is not None,
            **(body or {}),
        },
        needs_approval=operation.method not in _READING,
    )


@dataclass(slots=True)
class _Inputs:
    """What an operation takes: each argument's schema, those required, their places, and the forms that are no default."""

    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    forms: dict[str, dict[str, Any]] = field(default_factory=dict)


def _at(document: Mapping[str, Any], node: Any) -> Any:
    """Follow a node's own reference; references inside it stay."""
    for _step in range(10):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str):
            return node
        node = target_of(document, reference)
    raise ToolDefinitionError("A reference refers to itself.")


def _inputs(document: Mapping[str, Any], operation: _Operation) -> _Inputs:
    """The parameters that a model may fill; raises where the path has one that is not described."""
    inputs = _Inputs()
    described = _parameters(document, operation)
    for (name, place), item in described.items():
        if place not in _STYLES or (place == "header" and name.lower() in _RESERVED_HEADERS):
            continue
        # A name in two places is two arguments.
        argument = name if name not in (*inputs.places, BODY) else f"{name}_{place}"
        schema, form, text = item.get("schema"), _form(item, place), item.get("description")
        if isinstance(content := item.get("content"), dict) and content:
            [(kind, inner), *_more] = content.items()
            schema = inner.get("schema") if isinstance(inner, dict) else None
            form = {"is_json": True} if _JSON.fullmatch(kind) else {}
        inputs.properties[argument] = {
            **(schema if isinstance(schema, dict) else {}),
            **({"description": str(text)} if text else {}),
        }
        inputs.places[argument] = place
        if form := {**form, **({"name": name} if argument != name else {})}:
            inputs.forms[argument] = form
        if place == "path" or item.get("required") is True:
            inputs.required.append(argument)
    missing = [part for part in _VARIABLE.findall(operation.path) if (part, "path") not in described]
    if missing:
        raise ToolDefinitionError(f"The path has parameters without description: {missing[0]}.")
    return inputs


def _form(item: Mapping[str, Any], place: str) -> dict[str, Any]:
    """How the parameter is written, where that is not its place's default; raises where it cannot be."""
    style = item.get("style", _STYLES[place][0])
    if style not in _STYLES[place]:
        raise ToolDefinitionError(f"The parameter {item['name']} has the style {str(style)[:50]!r}, which is not sent.")
    form = {"style": style} if style != _STYLES[place][0] else {}
    return {**form, **({"explode": item["explode"]} if isinstance(item.get("explode"), bool) else {})}


def _parameters(document: Mapping[str, Any], operation: _Operation) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the parameters by name and place; an operation's own replaces the path's of the same name."""
    own = operation.described.get("parameters")
    described = [_at(document, item) for item in [*operation.shared, *(own if isinstance(own, list) else [])]]
    return {
        (str(item["name"]), str(item.get("in"))): item
        for item in described
        if isinstance(item, dict) and "name" in item
    }


def _add_body(inputs: _Inputs, document: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any] | None:
    """Add the body as one more argument, JSON before a form; `None` where the operation has none."""
    body = _at(document, operation.get("requestBody"))
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, dict):
        return None
    media = {str(kind).split(";")[0].strip(): each for kind, each in content.items()}
    kinds = [kind for kind in media if _JSON.fullmatch(kind)] + [kind for kind in media if kind == FORM]
    is_required = body.get("required") is True
    if not kinds:
        if is_required:
            raise ToolDefinitionError(
                f"The body is {', '.join(list(media)[:3]) or 'not described'}: only JSON and plain forms are sent."
            )
        return None
    sent = media[kinds[0]] if isinstance(media[kinds[0]], dict) else {}
    schema = sent.get("schema")
    inputs.properties[BODY] = schema if isinstance(schema, dict) else {}
    inputs.required.extend([BODY] if is_required else [])
    return {"body_kind": FORM} if kinds[0] == FORM else {}
