"""Retention: one list of everything that expires, and the nightly job (`RETAIN_HOUR`) that deletes what has expired.

A rule names the setting with the retention time, and the function, in the app that owns the rows, that finds them.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from auditlog.models import LogEntry as Change
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from agents import jobs
from agents.database import first_line, short_write
from agents.errors import ApplicationError
from agents.models import OPEN_JOBS, Job, JobKind

#: The hour, local time, at which a worker deletes what is past its time.
RETAIN_HOUR = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rule:
    """The setting that says until when, and the function that finds the rows, or deletes and yields numbers."""

    name: str
    until: str
    rows: str
    #: Rows of one transaction, where the usual number is too many.
    batch: int | None = None

    def deleted(self) -> Iterator[int]:
        """Delete expired things in bounded transactions; yields the number of each."""
        found = import_string(self.rows)()
        yield from delete_in_batches(found, self.batch) if isinstance(found, QuerySet) else found


#: In the order in which they are looked at.
RULES = (
    Rule("conversations", "CONVERSATION_DAYS", "chat.retention.old_conversations", batch=50),
    Rule("empty_conversations", "EMPTY_CONVERSATION_HOURS", "chat.retention.empty_conversations", batch=50),
    Rule("help_requests", "UNANSWERED_RETENTION_DAYS", "chat.thread.help_requests.delete_expired"),
    Rule("golden_runs", "GOLDEN_RUNS_KEPT", "chat.retention.surplus_runs"),
    Rule("memory", "memory_max_age_days", "faqs.memory.delete_expired"),
    Rule("generations", "FINISHED_JOB_DAYS", "knowledge.indexing.rebuild.delete_abandoned"),
    Rule("files", "ORPHAN_FILE_HOURS", "knowledge.indexing.path.delete_orphans"),
    Rule("jobs", "FINISHED_JOB_DAYS", "agents.retention.finished_jobs"),
    Rule("sessions", "SESSION_DAYS", "agents.retention.expired_sessions"),
    Rule("changes", "AUDIT_LOG_DAYS", "agents.retention.old_changes"),
)


def delete_in_batches(rows: QuerySet[Any], size: int | None = None) -> Iterator[int]:
    """Delete these rows and their dependants, checked again in each batch's transaction; yields their number."""
    model: type[Model] = rows.model
    while True:
        batch = list(rows.values_list("pk", flat=True)[: size or settings.RETAIN_BATCH])
        if not batch:
            return
        with short_write():
            _all, by_model = rows.order_by().filter(pk__in=batch).delete()
        deleted = by_model.get(model._meta.label, 0)
        if not deleted:
            return
        yield deleted


def next_night(now: datetime) -> datetime:
    """The next moment at which the nightly deletion begins."""
    local = timezone.localtime(now)
    night = local.replace(hour=RETAIN_HOUR, minute=0, second=0, microsecond=0)
    return night if night > local else night + timedelta(days=1)


def retain(held: jobs.Held) -> jobs.Outcome:
    """Delete by every rule; a rule that fails does not stop the others."""
    done: dict[str, int] = {}
    failed: dict[str, str] = {}
    for rule in RULES:
        try:
            for count in rule.deleted():
                done[rule.name] = done.get(rule.name, 0) + count
                held.progress(done[rule.name], 0, rule.name)
        except (jobs.LeaseLostError, jobs.JobCancelledError):
            raise
        except (ApplicationError, DatabaseError, OSError) as error:
            failed[rule.name] = first_line(error)[:500]
            logger.warning("Retention of %s failed: %s", rule.name, failed[rule.name])
    logger.info(
        "retention done %s failed=%s",
        " ".join(f"{name}={count}" for name, count in done.items()) or "nothing",
        ",".join(failed) or "none",
    )
    if held.in_background:
        # What was counted of deleted conversations is put together.
        jobs.enqueue(JobKind.FIGURES, key=JobKind.FIGURES)
    return jobs.Outcome(report={"done": done, "failed": failed}, again_at=next_night(timezone.now()))


def _before(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def finished_jobs() -> QuerySet[Job]:
    """With them the rows of workers that were seen last so long ago."""
    before = _before(settings.FINISHED_JOB_DAYS)
    lost = Q(kind=JobKind.WORKER, lease_expires_at__lt=before)
    return Job.objects.filter(lost | Q(finished_at__lt=before) & ~Q(status__in=OPEN_JOBS))


def expired_sessions() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=timezone.now())


def old_changes() -> Iterator[int]:
    """Delete old lines of the journal and of the admin's log."""
    if days := settings.AUDIT_LOG_DAYS:
        yield from delete_in_batches(LogEntry.objects.filter(action_time__lt=_before(days)))
        yield from delete_in_batches(Change.objects.filter(timestamp__lt=_before(days)))
