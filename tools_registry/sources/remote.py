"""Remote tools: the list of a source is read when staff refresh it, and its tools become specifications from what was
stored then. Nothing connects before a tool is executed; an answer holds none of the secrets that the request carried.
"""

import hashlib
import json
import logging
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils import timezone

from agents.database import short_write
from agents.jobs import Held
from agents.texts import storable_value
from tools_registry.errors import ToolDefinitionError, ToolError, ToolSourceError
from tools_registry.models import NAME_LENGTH, SourceKind, ToolOverride, ToolSource
from tools_registry.sources.base import (
    DeclaredTool,
    ReadTools,
    SourceAddress,
    fitted,
    fitted_text,
    hide_secrets,
    without_secrets,
)
from tools_registry.sources.mcp import call_tool, list_tools
from tools_registry.sources.openapi import call_operation, read_document
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
        headers = self.address.headers
        try:
            if self.address.kind == SourceKind.OPENAPI:
                value = call_operation(self.address, json.loads(self.operation), arguments)
            else:
                value = call_tool(self.address, self.name, arguments)
        except ToolError as error:
            raise without_secrets(error, headers) from error
        return hide_secrets(storable_value(value), headers)


def remote_specs(**wanted: Any) -> list[ToolSpec]:
    """The wanted rows as tools: of active sources, there at the last reading, fit to be given to a model."""
    # A document may have 30 MB.
    sources = {
        source.pk: (source, SourceAddress.of(source, for_calls=True))
        for source in ToolSource.objects.filter(is_active=True).defer("document", "problems")
    }
    rows = ToolOverride.objects.filter(is_present=True, source__in=sources, **wanted)
    # Schemas as their text, which is read once in a process: a thousand of them are half a second.
    rows = rows.annotate(schema=Cast("declared_parameters", TextField()), request=Cast("operation", TextField())).only(
        "source_id", "tool_name", "remote_name", "declared_description", "declared_approval"
    )
    specs = []
    for row in rows:
        source, address = sources[row.source_id or 0]
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
        description=row.declared_description,
        parameters=fitted_text(row.schema),
        invoke=_RemoteCall(address, row.remote_name, row.request),
        tags=frozenset(str(tag) for tag in tags),
        is_personal=source.is_personal,
        needs_approval=row.declared_approval,
        timeout_seconds=source.timeout_seconds + _MARGIN_SECONDS,
        source="openapi" if source.kind == SourceKind.OPENAPI else "mcp",
    )


_MOST_DESCRIPTION = 4_000
#: Tools that cannot be used, kept with the reason for staff.
_MOST_PROBLEMS = 200
_BATCH = 200
#: What a reading may change of a row.
_READ_FIELDS = (
    *("declared_description", "declared_parameters", "operation"),
    *("declared_approval", "is_active", "is_present"),
)


def refresh_source(source: ToolSource) -> None:
    """Read the source's list and store it with what cannot be used; a failure is kept on the source and raised."""
    try:
        read = _read(source)
        declared = _usable(read)
        with short_write():
            _store(source, declared)
            source.refreshed_at, source.last_error = timezone.now(), ""
            source.problems = read.refused[:_MOST_PROBLEMS]
            source.save(update_fields=["refreshed_at", "last_error", "problems"])
    except ToolError as error:
        told = without_secrets(error, SourceAddress.of(source, for_calls=True).headers)
        ToolSource.objects.filter(pk=source.pk).update(last_error=str(told)[:2_000])
        raise told from error


def _read(source: ToolSource) -> ReadTools:
    address = SourceAddress.of(source)
    read = read_document(address) if source.kind == SourceKind.OPENAPI else list_tools(address)
    if not read.tools and read.refused:
        source.problems = read.refused[:_MOST_PROBLEMS]
        source.save(update_fields=["problems"])
        raise ToolSourceError(
            f"None of the source's tools can be used; the first one, {read.refused[0][0]}: {read.refused[0][1]}"
        )
    return read


def _usable(read: ReadTools) -> list[DeclaredTool]:
    """The tools that a model can be given; the others are refused."""
    usable: dict[str, DeclaredTool] = {}
    for tool in read.tools:
        try:
            fit = replace(tool, parameters=fitted(tool.parameters))
        except ToolDefinitionError as error:
            read.refused.append((tool.name[:200], str(error)))
            continue
        if not tool.name or tool.name in usable or len(tool.name) > 200:
            read.refused.append((tool.name[:200], "its name is empty, too long or taken"))
            continue
        usable[tool.name] = fit
    return list(usable.values())


@dataclass(slots=True)
class _Merged:
    """What a reading does to the rows of a source; nothing is saved yet."""

    new: list[ToolOverride] = field(default_factory=list)
    #: All that are to be saved, of which some ask for approval from now on.
    changed: list[ToolOverride] = field(default_factory=list)
    graver: list[ToolOverride] = field(default_factory=list)
    gone: list[ToolOverride] = field(default_factory=list)


def _store(source: ToolSource, declared: Sequence[DeclaredTool]) -> None:
    """In a few statements, however many tools there are."""
    merged = _merge(source, declared)
    # The row of a tool of that name whose source was deleted keeps what staff wrote.
    ToolOverride.objects.bulk_create(
        merged.new,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["tool_name"],
        update_fields=["source", "remote_name", *_READ_FIELDS],
    )
    ToolOverride.objects.bulk_update([*merged.changed, *merged.gone], _READ_FIELDS, batch_size=_BATCH)
    # That a tool runs unasked was decided about it as it was: not about one that asks now, or another source's of that
    # name.
    if names := [row.tool_name for row in [*merged.new, *merged.graver]]:
        decided = ToolOverride.objects.filter(tool_name__in=names, needs_approval=False)
        decided.update(needs_approval=None)


def _merge(source: ToolSource, declared: Sequence[DeclaredTool]) -> _Merged:
    """Rows of what was not read this time are kept as absent."""
    known = {row.remote_name: row for row in source.tools.defer("vector")}
    taken = set(ToolOverride.objects.filter(source__isnull=False).values_list("tool_name", flat=True))
    merged = _Merged()
    for tool in declared:
        row = known.pop(tool.name, None)
        if row is None:
            name = _free_name(source.slug, tool.name, taken)
            taken.add(name)
            row = ToolOverride(source=source, remote_name=tool.name, tool_name=name, is_active=False)
            row.declared_approval = tool.needs_approval
            row.declared_description, row.declared_parameters, row.operation = _told(tool)
            merged.new.append(row)
        else:
            _meet(row, tool, merged)
    merged.gone = [row for row in known.values() if row.is_present]
    for row in merged.gone:
        row.is_present = row.is_active = False
    return merged


def _meet(row: ToolOverride, tool: DeclaredTool, merged: _Merged) -> None:
    """A known tool is read again: what it says now, and whether it asks."""
    # Nothing is lost where a tool that waits for staff says better what it does.
    asks = tool.needs_approval or (row.is_active and row.declared_approval)
    told = _told(tool)
    if not row.is_present or _stored(row) != told:
        row.is_active, row.is_present = False, True
    elif asks == row.declared_approval:
        return
    if asks and not row.declared_approval:
        merged.graver.append(row)
    row.declared_description, row.declared_parameters, row.operation = told
    row.declared_approval = asks
    merged.changed.append(row)


_Told = tuple[str, dict[str, Any], dict[str, Any]]


def _told(tool: DeclaredTool) -> _Told:
    description = tool.description.strip()[:_MOST_DESCRIPTION] or tool.name
    return description, dict(tool.parameters), dict(tool.operation)


def _stored(row: ToolOverride) -> _Told:
    """What staff were shown, its schema made fit as it is now: older versions stored it as the server wrote it."""
    try:
        parameters = fitted(row.declared_parameters)
    except ToolDefinitionError:
        parameters = row.declared_parameters
    return row.declared_description, parameters, row.operation


def _free_name(slug: str, remote_name: str, taken: Collection[str]) -> str:
    """A name that model APIs accept and no other remote tool has."""
    plain = re.sub(r"[^a-zA-Z0-9-]+", "_", f"{slug}_{remote_name}").strip("_")
    digest = hashlib.sha256(f"{slug}\0{remote_name}".encode()).hexdigest()[:8]
    name = plain if len(plain) <= NAME_LENGTH else f"{plain[: NAME_LENGTH - 9]}_{digest}"
    return f"{plain[: NAME_LENGTH - 9]}_{digest}" if name in taken else name


def read_tool_source(held: Held) -> None:
    """The job that reads the list of a source; what came of it stands on its row."""
    source = ToolSource.objects.filter(pk=held.job.key).first()
    if source is None:
        return
    try:
        refresh_source(source)
    except ToolError as error:
        logger.info("The source of tools %d was not read (%s).", source.pk, error.code)
