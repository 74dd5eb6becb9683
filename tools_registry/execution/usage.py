"""How often each tool was offered, called, and failed; read by staff, never by selection.

The counters of a tool are one row. They are written after the fact, in one short transaction, and a simulation or a
dry run writes nothing: it does not call these verbs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import F
from django.utils import timezone

from agents.database import short_write
from tools_registry.models import ToolUsage


def record_selected(names: Iterable[str]) -> None:
    """Count the tools that were offered for a question; called once a turn, after its answer."""
    _add({name: {"selected": 1} for name in set(names)}, last="last_selected_at")


def record_calls(outcomes: Sequence[tuple[str, bool]]) -> None:
    """Count calls (name, success)."""
    called = Counter(name for name, _success in outcomes)
    failed = Counter(name for name, success in outcomes if not success)
    _add(
        {name: {"called": count, "failed": failed[name]} for name, count in called.items()},
        last="last_called_at",
    )


def _add(counts: dict[str, dict[str, int]], *, last: str) -> None:
    if not counts:
        return
    now = timezone.now()
    with short_write():
        known = set(
            ToolUsage.objects.filter(tool_name__in=counts).values_list("tool_name", flat=True)
        )
        ToolUsage.objects.bulk_create(
            [ToolUsage(tool_name=name) for name in sorted(counts.keys() - known)],
            ignore_conflicts=True,
        )
        for name in sorted(counts):
            added: dict[str, Any] = {key: F(key) + value for key, value in counts[name].items()}
            ToolUsage.objects.filter(tool_name=name).update(**added, **{last: now})
