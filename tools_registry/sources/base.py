"""What the kinds of sources share: where a source is, and what it declares. Values only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools_registry.models import ToolSource

#: What is read, and of how many.
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """A source as its backend needs it, apart from its row; headers still name their secrets.

    `source` is the row's number: two sources share no connection. `chosen` are the lines that name what is read.
    """

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
