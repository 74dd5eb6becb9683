"""What every Django site piles up: expired sessions, the admin's log, rows of workers that are gone."""

from datetime import timedelta
from typing import Any

from auditlog.models import LogEntry as Change
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.models import Worker
from agents.processes.upkeep import Kept, kept_rows


def _sessions() -> QuerySet[Session]:
    return Session.objects.filter(expire_date__lt=timezone.now())


def _log_entries() -> QuerySet[LogEntry]:
    if not settings.ADMIN_LOG_DAYS:
        return LogEntry.objects.none()
    limit = timezone.now() - timedelta(days=settings.ADMIN_LOG_DAYS)
    return LogEntry.objects.filter(action_time__lt=limit)


def _changes() -> QuerySet[Change]:
    lines: QuerySet[Change] = Change.objects.none()
    if settings.AUDIT_LOG_DAYS:
        limit = timezone.now() - timedelta(days=settings.AUDIT_LOG_DAYS)
        lines = Change.objects.filter(timestamp__lt=limit)
    return lines


def _workers() -> QuerySet[Any]:
    """The one seen last stays: it says since when there is none."""
    limit = timezone.now() - timedelta(days=settings.WORKER_ROW_DAYS)
    last = Worker.objects.order_by("-beat_at").values("pk")[:1]
    return Worker.objects.filter(beat_at__lt=limit).exclude(pk__in=last)


KEPT: tuple[Kept, ...] = (
    kept_rows("sessions", _("sessions expirées"), "SESSION_DAYS", _sessions),
    kept_rows("admin_log", _("lignes du journal d’administration"), "ADMIN_LOG_DAYS", _log_entries),
    kept_rows("changes", _("lignes du journal des changements"), "AUDIT_LOG_DAYS", _changes),
    kept_rows("workers", _("workers disparus"), "WORKER_ROW_DAYS", _workers),
)
