"""What the kinds of sources share: where a source is, what it declares, where its tools may connect, and its secrets.

Foreign schemas are made as models take them (`fitted`): looser, never tighter, since the tool's server checks the
arguments. One that is not valid, or is no single object, is refused with its reason (`ToolDefinitionError`).
"""

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from django.conf import settings

from agents.network import Reach
from agents.texts import storable
from tools_registry.errors import ToolDefinitionError, ToolError, ToolSourceError
from tools_registry.models import ToolSource

#: The longest answer of a remote tool, and the longest document of tools, that is read.
TOOL_MAX_RESPONSE_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """A source as its backend needs it, apart from its row; headers still name their secrets."""

    kind: str
    command: str
    url: str
    document: str
    allowed_hosts: tuple[str, ...]
    headers: Mapping[str, str]
    timeout_seconds: float
    chosen: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: ToolSource, *, for_calls: bool = False) -> "SourceAddress":
        """`for_calls`: without the document, which may be large and says nothing more once it was read."""
        hosts = source.allowed_hosts if isinstance(source.allowed_hosts, list) else []
        return cls(
            kind=source.kind,
            command=source.command,
            url=source.url,
            document="" if for_calls else source.document,
            allowed_hosts=tuple(str(host) for host in hosts),
            headers=source.headers if isinstance(source.headers, dict) else {},
            timeout_seconds=source.timeout_seconds,
            chosen=tuple(line.strip() for line in source.chosen.splitlines() if line.strip()),
        )


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as its source describes it. `operation` is what the backend needs to call it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    operation: Mapping[str, Any] = field(default_factory=dict)
    needs_approval: bool = False


@dataclass(slots=True)
class ReadTools:
    """What a source declares, and what of it cannot be used, with the reason."""

    tools: list[DeclaredTool] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


SECRET_PREFIX = "TOOL_SECRET_"  # noqa: S105  # the beginning of the names, not a secret
#: A shorter one stands in ordinary words, too.
_SHORTEST_SECRET = 4
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
#: Headers whose value must be a reference: what they hold is a credential.
_CREDENTIALS = re.compile(r"authorization|cookie|token|secret|password|api[-_]?key", re.IGNORECASE)
#: What the connection itself says. With a `Host` of somebody's choosing a shared server hands a secret to another site.
RESERVED_HEADERS = {
    "host",
    "connection",
    "content-length",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


def header_problem(headers: object) -> str:
    """What is wrong with the headers that staff wrote; empty where nothing is."""
    if not isinstance(headers, dict):
        return "not an object"
    for name, value in headers.items():
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
            return f"{name!r} is not a name with a text"
        if name.lower() in RESERVED_HEADERS:
            return f"{name!r} is the connection's own"
        if any(ord(character) < 32 for character in value):
            return f"{name!r} holds a control character"
        references = _REFERENCE.findall(value)
        if any(not reference.startswith(SECRET_PREFIX) for reference in references):
            return f"{name!r} may only name variables that begin with {SECRET_PREFIX}"
        if _CREDENTIALS.search(name) and not references:
            return f"{name!r} must name its secret: ${{{SECRET_PREFIX}…}}"
    return ""


def resolved_headers(headers: Mapping[str, str], places: Sequence[str]) -> dict[str, str]:
    """The headers with their secrets, for the hosts of `TOOL_SECRET_…_HOSTS` alone. Raises `ToolSourceError`."""
    if problem := header_problem(dict(headers)):
        raise ToolSourceError(f"Headers: {problem}.")

    def secret(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], "")
        if not value:
            raise ToolSourceError(f"The variable {match[1]} is not set.")
        hosts = os.environ.get(f"{match[1]}_HOSTS", "").lower().replace(",", " ").split()
        if elsewhere := next((place for place in places if place.lower() not in hosts), ""):
            raise ToolSourceError(f"{match[1]} may not go to {elsewhere}: {match[1]}_HOSTS does not name it.")
        return value

    return {name: _REFERENCE.sub(secret, value) for name, value in headers.items()}


def resolved_variables(headers: Mapping[str, str], command: str) -> dict[str, str]:
    """The secrets of a local command: a variable with words of staff's own (a proxy, a library) could lead them away."""
    if wrong := next((name for name, value in headers.items() if not _REFERENCE.fullmatch(value)), ""):
        raise ToolSourceError(f"{wrong} may only be one ${{{SECRET_PREFIX}…}}: the command is the operator's.")
    return resolved_headers(headers, [command])


_sent: ContextVar[list[str] | None] = ContextVar("requests that a staff member's own call sends", default=None)


@contextmanager
def sent_requests() -> Iterator[list[str]]:
    """Collect the requests that are sent within, as text without secrets."""
    found: list[str] = []
    token = _sent.set(found)
    try:
        yield found
    finally:
        _sent.reset(token)


async def note_request(headers: Mapping[str, str], request: Any) -> None:
    if (found := _sent.get()) is not None:
        lines = [f"{request.method} {request.url}", *(f"{name}: {value}" for name, value in request.headers.items())]
        text = "\n".join([*lines, "", request.read().decode("utf-8", "replace")]).rstrip()
        found.append(str(hide_secrets(text, headers)))


def hide_secrets(value: object, headers: Mapping[str, str]) -> object:
    """The value without the secrets that a source's headers name, also as JSON, addresses and base64 write them."""
    hidden: set[str] = set()
    for text in headers.values():
        for name in _REFERENCE.findall(text):
            secret = os.environ.get(name, "") if name.startswith(SECRET_PREFIX) else ""
            if len(secret) >= _SHORTEST_SECRET:
                encoded = base64.b64encode(secret.encode()).decode()
                hidden |= {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), encoded}
    if not hidden:
        return value
    pattern = re.compile("|".join(map(re.escape, sorted(hidden, key=len, reverse=True))))
    return _without(value, pattern)


def without_secrets(error: ToolError, headers: Mapping[str, str]) -> ToolError:
    """The same error, its words as `hide_secrets` leaves them and a database can keep them."""
    return type(error)(str(hide_secrets(storable(str(error)), headers)))


def _without(value: object, pattern: re.Pattern[str]) -> object:
    if isinstance(value, str):
        return pattern.sub("***", value)
    if isinstance(value, Mapping):
        return {_without(key, pattern): _without(inner, pattern) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without(item, pattern) for item in value]
    return value


def reach_of(
    headers: Mapping[str, str], allowed: Sequence[str], *, max_bytes: int | None = None, cuts: bool = False
) -> Reach:
    """What a source with these headers that may call these hosts can connect to: with a secret, by TLS alone."""
    return Reach(
        tls=any(map(_REFERENCE.search, headers.values())),
        max_bytes=max_bytes or TOOL_MAX_RESPONSE_BYTES,
        hosts=allowed,
        internal=settings.TOOL_INTERNAL_HOSTS,
        error=ToolSourceError,
        cuts=cuts,
    )


#: What one tool may take of a prompt, and what is walked through to find that out.
MOST_CHARACTERS = 40_000
_MOST_NODES = 20_000
_DEEPEST = 60
_MOST_DESCRIPTION = 1_000
#: Taken as they are. Patterns are not: some model servers refuse a request for one that they cannot read.
_PLAIN = (
    *("type", "format", "enum", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
)
_CHOICES = ("anyOf", "oneOf", "allOf")


def fitted(schema: Any, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object as model APIs take it, references resolved. Raises `ToolDefinitionError`."""
    from jsonschema import Draft202012Validator  # 50 ms of each start, for sites that have such tools
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict):
        raise ToolDefinitionError("The parameters are not described by a schema.")
    made = _Fitting(schema if document is None else document).fit(schema, 0, ())
    if not _is(made, "object") and "type" in made:
        raise ToolDefinitionError(f"The parameters are {made['type']}, not an object.")
    if not made.get("properties") and made.keys() & {*_CHOICES}:
        raise ToolDefinitionError("The parameters are alternatives or parts, not one object.")
    # At the top these words are refused; the properties say enough.
    top = {word: value for word, value in made.items() if word not in (*_CHOICES, "enum", "items")}
    top = {"properties": {}, **top, "type": "object"}
    try:
        text = json.dumps(top, allow_nan=False)
        Draft202012Validator.check_schema(top)
    except (SchemaError, ValueError, TypeError, RecursionError) as error:
        reason = str(getattr(error, "message", error))[:300]
        raise ToolDefinitionError(f"The schema is not valid: {reason}") from error
    if len(text) > MOST_CHARACTERS:
        raise ToolDefinitionError(f"The schema has {len(text)} characters; a model is given {MOST_CHARACTERS} at most.")
    return top


def target_of(root: Mapping[str, Any], reference: str) -> Any:
    """What a reference inside `root` leads to; it is never fetched from elsewhere."""
    if reference != "#" and not reference.startswith("#/"):
        raise ToolDefinitionError(f"The reference {reference[:100]!r} leaves the document.")
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or key not in found:
            raise ToolDefinitionError(f"The reference {reference[:100]!r} leads nowhere.")
        found = found[key]
    return found


@lru_cache(maxsize=4096)
def fitted_text(text: str) -> dict[str, Any]:
    """`fitted` of a schema that is stored as JSON; each text is read once."""
    return fitted(json.loads(text))


class _Fitting:
    """One schema's way through: what its references lead to, and how much of it was seen."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def fit(self, node: Any, depth: int, within: Sequence[str]) -> dict[str, Any]:
        """`within` are the references followed: inside itself a schema takes anything, since it would have no end."""
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > _DEEPEST:
            raise ToolDefinitionError("The schema is too large, or nested too deeply.")
        if node is None or isinstance(node, bool):
            return {}
        if not isinstance(node, dict):
            raise ToolDefinitionError(f"{str(node)[:100]!r} is not a schema.")
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                return {}
            target = target_of(self._root, reference)
            beside = {key: value for key, value in node.items() if key != "$ref"}
            target = {**target, **beside} if isinstance(target, dict) else target
            return self.fit(target, depth + 1, (*within, reference))
        made = _plain(node)
        for word in _CHOICES:
            if isinstance(parts := node.get(word), list) and parts:
                made[word] = [self.fit(part, depth + 1, within) for part in parts]
        if isinstance(described := node.get("properties"), dict):
            made["properties"] = {str(name): self.fit(inner, depth + 1, within) for name, inner in described.items()}
        if isinstance(required := node.get("required"), list) and required:
            made["required"] = list(dict.fromkeys(map(str, required)))
        more = node.get("additionalProperties")
        # Names that a pattern allows are no longer told apart from others: none is forbidden then.
        if isinstance(more, bool | dict) and not node.get("patternProperties"):
            made["additionalProperties"] = more if isinstance(more, bool) else self.fit(more, depth + 1, within)
        items = node.get("items")
        if _is(made, "array") or isinstance(items, dict):
            made["items"] = self.fit(items, depth + 1, within) if isinstance(items, dict) else {}
        return made


def _plain(node: Mapping[str, Any]) -> dict[str, Any]:
    """The words that hold no other schema, and what OpenAPI 3.0 says in words of its own."""
    made = {word: node[word] for word in _PLAIN if node.get(word) is not None}
    text = node.get("description") or node.get("title")
    if isinstance(text, str) and text.strip():
        made["description"] = text.strip()[:_MOST_DESCRIPTION].strip()
    if node.get("const") is not None:
        made["enum"] = [node["const"]]
    if node.get("nullable") is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    for word in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(made.get(word), bool):
            del made[word]
    return made


def _is(made: Mapping[str, Any], kind: str) -> bool:
    named = made.get("type")
    return named == kind or (isinstance(named, list) and kind in named)
