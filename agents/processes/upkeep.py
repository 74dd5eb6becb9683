"""Upkeep as rows: what was looked after, when, by whom, and what came of it; and the bounded deletion of what is past
its time.

A kind of upkeep that must not run twice at a time is claimed: one process wins, its row is renewed with every batch,
and one that was killed is taken up when its row has not been renewed for `JOB_LEASE_SECONDS`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from django.utils.functional import Promise

from agents.database import short_write
from agents.models import Upkeep

#: The worker's look every few seconds for what was abandoned or forgotten.
REAPING = "reap"
#: The nightly deletion of what is past its time.
RETENTION = "retain"


@dataclass(frozen=True, slots=True)
class Kept:
    """One kind of things that are kept for a time. `until` names the setting that says for how long."""

    name: str
    label: str | Promise
    until: str
    #: How many are past their time.
    count: Callable[[], int]
    #: Deletes them in bounded transactions, and yields how many went with each.
    forget: Callable[[], Iterator[int]]


def kept_rows(name: str, label: str | Promise, until: str, rows: Callable[[], QuerySet[Any]]) -> Kept:
    """Things that are rows: `rows` are those past their time."""
    return Kept(name, label, until, lambda: rows().count(), lambda: delete_in_batches(rows()))


def delete_in_batches(rows: QuerySet[Any], size: int | None = None) -> Iterator[int]:
    """Delete these rows with what hangs on them, a transaction a batch; yields how many went with each.

    The condition is asked again in the transaction. Killed, it goes on next time.
    """
    model: type[Model] = rows.model
    while True:
        batch = list(rows.values_list("pk", flat=True)[: size or settings.RETAIN_BATCH])
        if not batch:
            return
        with short_write():
            _all, by_model = rows.order_by().filter(pk__in=batch).delete()
        gone = by_model.get(model._meta.label, 0)
        if not gone:
            return
        yield gone


def note_reaping(by: str, done: Mapping[str, int]) -> None:
    """Keep that a worker looked, and what it last found to do."""
    now = timezone.now()
    changes: dict[str, Any] = {"by": by, "started_at": now, "beat_at": now, "finished_at": now}
    if found := {name: count for name, count in done.items() if count}:
        changes |= {"acted_at": now, "done": found}
    Upkeep.objects.update_or_create(name=REAPING, defaults=changes)


def night_before(now: datetime) -> datetime:
    """The last moment at which the nightly deletion was to begin."""
    local = timezone.localtime(now)
    night = local.replace(hour=settings.RETAIN_HOUR, minute=0, second=0, microsecond=0)
    return night if night <= local else night - timedelta(days=1)


def is_due(since: datetime) -> bool:
    """Whether the nightly deletion has not begun since this moment, or was killed in the middle."""
    return _free(since).exists() or not Upkeep.objects.filter(name=RETENTION).exists()


def claim(by: str, *, since: datetime | None = None) -> bool:
    """Take the nightly deletion, one process alone. Without `since` also where it has run already."""
    now = timezone.now()
    Upkeep.objects.get_or_create(name=RETENTION)
    return bool(_free(since or now).update(by=by, started_at=now, beat_at=now, finished_at=None, done={}, failed={}))


def renew(by: str, **changes: Any) -> bool:
    """The claim goes on; `False` where another process has taken it."""
    mine = Upkeep.objects.filter(name=RETENTION, by=by, finished_at=None)
    return bool(mine.update(beat_at=timezone.now(), **changes))


def _free(since: datetime) -> QuerySet[Upkeep]:
    """The row, where it waits for its night or was left by a process that died."""
    left = timezone.now() - timedelta(seconds=settings.JOB_LEASE_SECONDS)
    waits = Q(started_at=None) | Q(finished_at__isnull=False, started_at__lt=since)
    return Upkeep.objects.filter(waits | Q(finished_at=None, beat_at__lt=left), name=RETENTION)
