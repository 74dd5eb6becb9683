"""The tools of remote sources as specifications, from what was stored when their lists were last read.

Nothing here connects: a source is asked when staff refresh it (`refresh`), and called when its tool is executed. What
it answers holds none of the secrets that the request carried.
"""

import json
import logging
from dataclasses import dataclass
from typing import Any

from django.db.models import TextField
from django.db.models.functions import Cast

from agents.texts import storable_value
from tools_registry.exceptions import ToolDefinitionError, ToolError
from tools_registry.models import RemoteTool, SourceKind, ToolSource
from tools_registry.sources.base import SourceAddress
from tools_registry.sources.fitting import fitted_text
from tools_registry.sources.mcp import call_tool
from tools_registry.sources.network import hide_secrets, without_secrets
from tools_registry.sources.requests import call_operation
from tools_registry.tool import Arguments, ToolContext, ToolSpec

logger = logging.getLogger(__name__)

#: What execution grants beyond a source's own delay, so that the source's clearer error comes first.
_MARGIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _RemoteCall:
    address: SourceAddress
    name: str
    #: As JSON, read when the tool is called.
    operation: str

    def __call__(self, arguments: Arguments, context: ToolContext) -> object:
        headers, tell = self.address.headers, context.on_progress

        def told(done: float, total: float | None, words: str) -> None:
            if tell is not None:
                tell(done, total, str(hide_secrets(words, headers)))

        try:
            if self.address.kind == SourceKind.OPENAPI:
                value = call_operation(self.address, json.loads(self.operation), arguments)
            else:
                value = call_tool(self.address, self.name, arguments, told if tell else None)
        except ToolError as error:
            raise without_secrets(error, headers) from error
        return hide_secrets(storable_value(value), headers)


def remote_specs() -> list[ToolSpec]:
    """The tools that staff allowed, of active sources, that were there at the last reading and that a model can be
    given.
    """
    # A document may have 30 MB.
    sources = {
        source.pk: (source, SourceAddress.of(source, for_calls=True))
        for source in ToolSource.objects.filter(is_active=True).defer("document", "problems")
    }
    rows = RemoteTool.objects.filter(is_allowed=True, is_present=True, source__in=sources)
    # Schemas as their text, which is read once in a process: a thousand of them are half a second.
    rows = rows.annotate(schema=Cast("parameters", TextField()), request=Cast("operation", TextField())).only(
        "source_id", "tool_name", "remote_name", "description", "needs_approval"
    )
    specs = []
    for row in rows:
        source, address = sources[row.source_id]
        try:
            specs.append(_spec(row, source, address))
        except ToolDefinitionError as error:
            # Stored by a version that did not look.
            logger.warning("The tool %s is not offered: %s", row.tool_name, error)
    return specs


def _spec(row: Any, source: ToolSource, address: SourceAddress) -> ToolSpec:
    tags = source.tags if isinstance(source.tags, list) else []
    return ToolSpec(
        name=row.tool_name,
        description=row.description,
        parameters=fitted_text(row.schema),
        invoke=_RemoteCall(address, row.remote_name, row.request),
        tags=frozenset(str(tag) for tag in tags),
        is_personal=source.is_personal,
        needs_approval=row.needs_approval,
        timeout_seconds=source.timeout_seconds + _MARGIN_SECONDS,
        source="openapi" if source.kind == SourceKind.OPENAPI else "mcp",
        source_id=source.pk,
    )
