"""What the kinds of sources share: where a source is, and what it declares. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools_registry.models import ToolSource


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

    @classmethod
    def of(cls, source: ToolSource) -> "SourceAddress":
        hosts = source.allowed_hosts if isinstance(source.allowed_hosts, list) else []
        return cls(
            kind=source.kind,
            command=source.command,
            url=source.url,
            document=source.document,
            allowed_hosts=tuple(str(host) for host in hosts),
            headers=source.headers if isinstance(source.headers, dict) else {},
            timeout_seconds=source.timeout_seconds,
        )


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as its source describes it. `operation` is what the backend needs to call it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    operation: Mapping[str, Any] = field(default_factory=dict)
    needs_approval: bool = False
