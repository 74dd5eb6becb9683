"""The tools of remote sources as specifications, from what was stored when their lists were last read.

Nothing here connects: a source is asked when staff refresh it (`refresh`), and called when its tool is executed.
"""

from dataclasses import dataclass
from typing import Any

from tools_registry.models import RemoteTool, SourceKind
from tools_registry.sources.base import SourceAddress
from tools_registry.sources.mcp import call_tool
from tools_registry.sources.openapi import call_operation
from tools_registry.tool import Arguments, ToolContext, ToolSpec

#: What execution grants beyond a source's own delay, so that the source's clearer error comes first.
_MARGIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _RemoteCall:
    address: SourceAddress
    name: str
    operation: dict[str, Any]

    def __call__(self, arguments: Arguments, _context: ToolContext) -> object:
        if self.address.kind == SourceKind.OPENAPI:
            return call_operation(self.address, self.operation, arguments)
        return call_tool(self.address, self.name, arguments)


def remote_specs() -> list[ToolSpec]:
    """The tools that staff allowed, of active sources, that were there at the last reading."""
    rows = RemoteTool.objects.filter(is_allowed=True, is_present=True, source__is_active=True)
    return [_spec(row) for row in rows.select_related("source")]


def _spec(row: RemoteTool) -> ToolSpec:
    source = row.source
    tags = source.tags if isinstance(source.tags, list) else []
    return ToolSpec(
        name=row.tool_name,
        description=row.description,
        parameters=row.parameters,
        invoke=_RemoteCall(SourceAddress.of(source), row.remote_name, row.operation),
        tags=frozenset(str(tag) for tag in tags),
        is_personal=source.is_personal,
        needs_approval=row.needs_approval,
        timeout_seconds=source.timeout_seconds + _MARGIN_SECONDS,
        source="openapi" if source.kind == SourceKind.OPENAPI else "mcp",
    )
