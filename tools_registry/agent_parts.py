"""What an agent's file holds of this app: what staff wrote of tools that this agent proposes. No source, and so no
secret, is in it.
"""

from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.models import Agent
from agents.staff.agent_files import AgentPart, Originals, Taken
from tools_registry.catalog import declared_tools
from tools_registry.models import ToolExample, ToolOverride

#: What is said of a tool to models, and who may use it, how.
_TEXTS = ["description", "parameters"]
_COLUMNS = [*_TEXTS, "extra_tags", "needs_approval", "is_active"]


def _dump(agent: Agent, _originals: Originals) -> list[dict[str, Any]]:
    offered = ToolOverride.objects.filter(Q(agents=None) | Q(agents=agent)).distinct()
    rows = offered.prefetch_related("examples", "agents").order_by("tool_name")
    return [
        {
            "tool_name": row.tool_name,
            **{name: getattr(row, name) for name in _COLUMNS},
            "examples": sorted(example.text for example in row.examples.all()),
            "is_own": bool(row.agents.all()),
        }
        for row in rows
        if _is_written(row)
    ]


def _is_written(row: ToolOverride) -> bool:
    """Whether staff said anything of this tool."""
    blank = ToolOverride()
    said = any(getattr(row, name) != getattr(blank, name) for name in _COLUMNS)
    return said or bool(row.examples.all()) or bool(row.agents.all())


def _taken_names(rows: list[dict[str, Any]]) -> set[str]:
    """Tools of which this site's staff said something themselves."""
    names = [str(row.get("tool_name")) for row in rows]
    stored = ToolOverride.objects.filter(tool_name__in=names).prefetch_related("examples", "agents")
    return {row.tool_name for row in stored if _is_written(row)}


def _check(rows: list[dict[str, Any]]) -> list[str]:
    kept = _taken_names(rows)
    text = _("L’outil « %(name)s » a déjà des textes sur ce site : ceux du fichier sont laissés.")
    shared = _("Outil « %(name)s » : ce qu’en dit le fichier vaudra pour tous les agents.")
    return [text % {"name": name} for name in sorted(kept)] + [
        shared % {"name": row["tool_name"]} for row in rows if row["tool_name"] not in kept and not row["is_own"]
    ]


def _load(agent: Agent, rows: list[dict[str, Any]], _originals: Originals, _taken: Taken, _by: Any) -> None:
    kept, declared = _taken_names(rows), declared_tools()
    with transaction.atomic():
        for row in rows:
            if row["tool_name"] in kept:
                continue
            tool, is_new = ToolOverride.objects.get_or_create(tool_name=row["tool_name"])
            is_new &= row["tool_name"] not in declared
            # A tool of this site is other agents', too: it gets words, and stays what they may use.
            for name in _COLUMNS if is_new else _TEXTS:
                setattr(tool, name, row[name])
            # That a tool runs unasked is decided on the site where it does.
            tool.needs_approval = tool.needs_approval or None
            tool.full_clean()
            tool.save()
            if row["is_own"] and is_new:
                tool.agents.add(agent)
            for text in row["examples"]:
                ToolExample.objects.get_or_create(override=tool, text=str(text)[:500])


PART = AgentPart("tools", gettext_lazy("Textes des outils"), _dump, _load, _check)
