"""Reading a source's list of tools, and storing it: first the network, then one transaction.

A tool that is new, or whose description or parameters changed since staff allowed it, waits for them: a server must not
be able to change what a model is told behind their back. One that is gone keeps its row and what staff wrote.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from agents.database import short_write
from tools_registry.exceptions import ToolDefinitionError, ToolError, ToolSourceError
from tools_registry.models import NAME_LENGTH, RemoteTool, SourceKind, ToolOverride, ToolSource
from tools_registry.schema import checked_schema
from tools_registry.sources.base import DeclaredTool, SourceAddress
from tools_registry.sources.mcp import list_tools
from tools_registry.sources.openapi import read_document

_MOST_DESCRIPTION = 4_000


@dataclass(slots=True)
class RefreshReport:
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


def refresh_source(source: ToolSource) -> RefreshReport:
    """Read the source's list and store it; a failure is kept on the source and raised."""
    report = RefreshReport()
    try:
        declared = _usable(_read(source, report), report)
    except ToolError as error:
        ToolSource.objects.filter(pk=source.pk).update(last_error=str(error)[:2_000])
        raise
    with short_write():
        _store(source, declared, report)
        source.refreshed_at, source.last_error = timezone.now(), ""
        source.save(update_fields=["refreshed_at", "last_error"])
    return report


def _read(source: ToolSource, report: RefreshReport) -> Sequence[DeclaredTool]:
    address = SourceAddress.of(source)
    if source.kind == SourceKind.OPENAPI:
        read = read_document(address)
        report.refused.extend(read.refused)
        return read.tools
    return list_tools(address)


def _usable(declared: Sequence[DeclaredTool], report: RefreshReport) -> list[DeclaredTool]:
    usable: dict[str, DeclaredTool] = {}
    for tool in declared:
        try:
            checked_schema(tool.parameters)
        except ToolDefinitionError as error:
            report.refused.append((tool.name[:200], str(error)))
            continue
        if not tool.name or tool.name in usable or len(tool.name) > 200:
            report.refused.append((tool.name[:200], "its name is empty, too long or taken"))
            continue
        usable[tool.name] = tool
    if declared and not usable:
        raise ToolSourceError("None of the source's tools can be used.")
    return list(usable.values())


def _store(source: ToolSource, declared: Sequence[DeclaredTool], report: RefreshReport) -> None:
    known = {row.remote_name: row for row in source.tools.all()}
    for tool in declared:
        row = known.pop(tool.name, None)
        description = tool.description.strip()[:_MOST_DESCRIPTION] or tool.name
        told = (description, dict(tool.parameters), dict(tool.operation))
        if row is None:
            row = RemoteTool(
                source=source,
                remote_name=tool.name,
                tool_name=_free_name(source.slug, tool.name),
                needs_approval=tool.needs_approval,
            )
            report.added.append(row.tool_name)
        elif (row.description, row.parameters, row.operation) == told and row.is_present:
            continue
        else:
            report.changed.append(row.tool_name)
        row.description, row.parameters, row.operation = told
        row.is_allowed, row.is_present = False, True
        row.needs_approval = row.needs_approval or tool.needs_approval
        row.save()
        ToolOverride.objects.get_or_create(tool_name=row.tool_name)
    for row in known.values():
        if row.is_present:
            row.is_present = row.is_allowed = False
            row.save()
            report.gone.append(row.tool_name)


def _free_name(slug: str, remote_name: str) -> str:
    """A name that model APIs accept and no other remote tool has."""
    plain = re.sub(r"[^a-zA-Z0-9-]+", "_", f"{slug}_{remote_name}").strip("_")
    digest = hashlib.sha256(f"{slug}\0{remote_name}".encode()).hexdigest()[:8]
    name = plain if len(plain) <= NAME_LENGTH else f"{plain[: NAME_LENGTH - 9]}_{digest}"
    if RemoteTool.objects.filter(tool_name=name).exists():
        name = f"{plain[: NAME_LENGTH - 9]}_{digest}"
    return name
