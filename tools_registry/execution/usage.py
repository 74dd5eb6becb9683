"""How often each tool was offered, called, and failed; read by staff, never by selection.

The counters of a tool are one row. They are written after the fact, in one short transaction, and a simulation or a dry
run writes nothing: it does not call these verbs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.utils import timezone

from agents.database import short_write
from tools_registry.models import ToolUsage

_MOST_REASON = 1_000


def record_selected(names: Iterable[str]) -> None:
    """Count the tools that were offered for a question; called once a turn, after its answer."""
    _add({name: {"selected": 1} for name in set(names)}, last="last_selected_at")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: the code of its error, none where it succeeded, and what staff are told of it."""

    name: str
    error: str = ""
    reason: str = ""


def record_calls(outcomes: Sequence[Outcome]) -> None:
    """Count calls, and keep the newest error of each tool for staff."""
    called = Counter(outcome.name for outcome in outcomes)
    failed = {outcome.name: outcome for outcome in outcomes if outcome.error}
    counts = {
        name: {"called": count, "failed": sum(bool(each.error) for each in outcomes if each.name == name)}
        for name, count in called.items()
    }
    with short_write():
        _add(counts, last="last_called_at")
        for name, outcome in failed.items():
            _tell(name, outcome.error, outcome.reason)


def record_refused(names: Iterable[str], reason: str) -> None:
    """Say to staff that the model refuses these tools."""
    with short_write():
        refused = list(names)
        _add({name: {} for name in refused}, last="last_selected_at")
        for name in refused:
            _tell(name, "refused_by_model", reason)


def _tell(name: str, code: str, reason: str) -> None:
    ToolUsage.objects.filter(tool_name=name).update(
        last_error=reason[:_MOST_REASON], last_error_code=code, last_error_at=timezone.now()
    )


def _add(counts: dict[str, dict[str, int]], *, last: str) -> None:
    if not counts:
        return
    now = timezone.now()
    with short_write():
        known = set(ToolUsage.objects.filter(tool_name__in=counts).values_list("tool_name", flat=True))
        ToolUsage.objects.bulk_create(
            [ToolUsage(tool_name=name) for name in sorted(counts.keys() - known)], ignore_conflicts=True
        )
        for name in sorted(counts):
            added: dict[str, Any] = {key: F(key) + value for key, value in counts[name].items()}
            ToolUsage.objects.filter(tool_name=name).update(**added, **{last: now})
