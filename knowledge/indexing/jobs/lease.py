"""A worker holds its build by a lease: it renews it, learns from the row that it lost it, and a dead one's is reaped."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from agents.database import first_line, is_surprising
from knowledge.exceptions import KnowledgeError
from knowledge.indexing.jobs.queue import nudge, waiting_messages
from knowledge.indexing.report import OnProgress
from knowledge.models import BuildPhase, BuildStatus, IndexBuild

logger = logging.getLogger(__name__)


class LeaseLostError(KnowledgeError):
    """Another worker has taken the build over; this one must stop writing."""

    code = "lease_lost"


class BuildCancelledError(KnowledgeError):
    """Staff cancelled the build; what is done is kept and it can be resumed."""

    code = "build_cancelled"
    default_message = _lazy("Ce travail a été annulé.")


@contextmanager
def heartbeat(build_id: int, owner: str) -> Iterator[threading.Event]:
    """Renew the lease until the block ends, or the build's hard limit; the event is set when the lease is lost."""
    stopped, lost = threading.Event(), threading.Event()
    limit = time.monotonic() + settings.JOB_HARD_LIMIT_SECONDS

    def beat() -> None:
        while not stopped.wait(settings.JOB_HEARTBEAT_SECONDS):
            close_old_connections()
            try:
                is_held = IndexBuild.objects.renew(build_id, owner)
            except DatabaseError as error:
                # Busy, full or away for now: the next beat comes before the lease ends.
                said = "The lease of build %s could not be renewed: %s"
                logger.warning(said, build_id, first_line(error), exc_info=is_surprising(error))
                is_held = True
            if time.monotonic() > limit or not is_held:
                lost.set()
                break
        connection.close()

    thread = threading.Thread(target=beat, name=f"heartbeat-{build_id}", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stopped.set()
        thread.join(timeout=5)


def progress_on_row(build_id: int, owner: str, lease_lost: threading.Event, on_progress: OnProgress) -> OnProgress:
    shown: BuildPhase | None = None

    def report(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
        nonlocal shown
        changes: dict[str, object] = {"done": done, "total": total}
        if phase is not shown:
            shown = phase
            changes |= {"phase": phase, "phase_started_at": timezone.now()}
        mine = IndexBuild.objects.filter(pk=build_id, lease_owner=owner, status=BuildStatus.RUNNING)
        if lease_lost.is_set() or not mine.update(**changes):
            _stop(build_id)
        on_progress(done, total, phase)

    return report


def _stop(build_id: int) -> NoReturn:
    status = IndexBuild.objects.filter(pk=build_id).values_list("status", flat=True).first()
    if status == BuildStatus.CANCELLED:
        raise BuildCancelledError(f"Build {build_id} was cancelled.")
    raise LeaseLostError(f"Build {build_id} was taken over by another worker.")


def reap_builds() -> int:
    """Queue again what a dead worker left, and nudge what has no message any more; returns how many were nudged.

    A message that no worker has taken stands for one job that waits: a worker that is busy for long finds as many as
    there are jobs.
    """
    now = timezone.now()
    expired = IndexBuild.objects.expired()
    expired.filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        status=BuildStatus.FAILED, finished_at=now, error=_("Le worker s’est arrêté à chaque essai ; voir son journal.")
    )
    expired.update(status=BuildStatus.QUEUED, lease_owner="")
    forgotten = now - timedelta(seconds=settings.JOB_REAP_SECONDS)
    waiting = IndexBuild.objects.due().filter(created_at__lt=forgotten).order_by("pk")
    pks = list(waiting.values_list("pk", flat=True))
    lost = pks[: max(0, len(pks) - waiting_messages())] if pks else []
    for pk in lost:
        nudge(pk)
    return len(lost)
