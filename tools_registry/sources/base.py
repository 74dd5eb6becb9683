"""What the kinds of sources share: where a source is, what it declares, where a tool may connect (allow-listed hosts,
with the guard of `agents.network`), and the secrets that headers name.
"""

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.conf import settings

from agents.network import Reach
from agents.texts import storable
from tools_registry.errors import ToolError, ToolSourceError
from tools_registry.models import ToolSource

#: The longest answer of a remote tool, and the longest document of tools, that is read.
TOOL_MAX_RESPONSE_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """A source as its backend needs it, apart from its row (`source`); headers still name their secrets."""

    source: int
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
            source=source.pk,
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


def header_problem(headers: object) -> str:
    """What is wrong with the headers that staff wrote; empty where nothing is."""
    if not isinstance(headers, dict):
        return "not an object"
    for name, value in headers.items():
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
            return f"{name!r} is not a name with a text"
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


def note_request(headers: Mapping[str, str], request: Any) -> None:
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


def reach_of(allowed: Sequence[str], *, max_bytes: int | None = None) -> Reach:
    """What a source that may call these hosts can connect to."""
    return Reach(
        max_bytes=max_bytes or TOOL_MAX_RESPONSE_BYTES,
        hosts=allowed,
        internal=settings.TOOL_INTERNAL_HOSTS,
        error=ToolSourceError,
    )
