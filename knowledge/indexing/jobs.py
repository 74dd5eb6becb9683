"""Long jobs as rows: an `IndexBuild` is queued, claimed under a lease, kept alive by a heartbeat, and reaped.

The row is the truth and a Celery message only a nudge, so a lost or doubled message does no harm: `claim` lets one
worker win, a worker that dies lets its lease run out, and `reap_builds` queues the build again. Commands run the
same verbs inline.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from celery import current_app
from celery.exceptions import OperationalError, SoftTimeLimitExceeded
from django.conf import settings
from django.db import IntegrityError, close_old_connections, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.exceptions import ApplicationError
from agents.models import Agent, IndexingMethod
from knowledge.exceptions import KnowledgeError, RebuildInProgressError
from knowledge.indexing.documents import index_documents
from knowledge.indexing.generations import new_generation
from knowledge.indexing.rebuild import fill_generation
from knowledge.indexing.report import IndexReport, OnProgress, no_progress
from knowledge.models import BuildKind, BuildStatus, Document, IndexBuild

logger = logging.getLogger(__name__)

#: By name, because the task module imports this one.
RUN_TASK = "knowledge.tasks.run_index_build"


class LeaseLostError(KnowledgeError):
    """Another worker has taken the build over; this one must stop writing."""

    code = "lease_lost"


def enqueue_documents(*, agent: Agent, document_ids: Sequence[int]) -> IndexBuild:
    build = IndexBuild.objects.create(
        agent=agent,
        kind=BuildKind.DOCUMENTS,
        document_ids=list(document_ids),
        total=len(document_ids),
    )
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def enqueue_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """Queue a rebuild; raises `RebuildInProgressError` while one is queued or running for the same index."""
    build = create_rebuild(agent=agent, method=method)
    transaction.on_commit(lambda: nudge(build.pk))
    return build


def create_rebuild(*, agent: Agent, method: IndexingMethod) -> IndexBuild:
    """The row of a rebuild, which is its lock. A dead worker's lock is taken over, its generation resumed."""
    abandoned = IndexBuild.objects.expired().filter(
        agent=agent, kind=BuildKind.REBUILD, method=method
    )
    resumed = abandoned.first()
    if resumed is not None:
        return resumed
    try:
        with transaction.atomic():
            return IndexBuild.objects.create(
                agent=agent,
                kind=BuildKind.REBUILD,
                method=method,
                generation=new_generation(agent, method),
            )
    except IntegrityError as error:
        raise RebuildInProgressError(f"{agent.slug} ({method}) is being rebuilt.") from error


def retry_build(build: IndexBuild) -> None:
    """Queue a failed build again, with its attempts forgotten."""
    IndexBuild.objects.filter(pk=build.pk, status=BuildStatus.FAILED).update(
        status=BuildStatus.QUEUED, attempts=0, error=""
    )
    transaction.on_commit(lambda: nudge(build.pk))


def nudge(build_id: int) -> None:
    """Tell a worker that there is work. A broker that is away is no error: the reaper nudges again."""
    try:
        current_app.send_task(RUN_TASK, args=[build_id])
    except OperationalError:
        logger.warning("The broker is unreachable; build %s waits for the reaper.", build_id)


def reap_builds() -> int:
    """Queue again what a dead worker left, and nudge what nobody has taken; returns how many were nudged."""
    now = timezone.now()
    expired = IndexBuild.objects.expired()
    expired.filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        status=BuildStatus.FAILED,
        finished_at=now,
        error=_("Le worker s’est arrêté à chaque essai ; voir son journal."),
    )
    expired.update(status=BuildStatus.QUEUED, lease_owner="")
    forgotten = now - timedelta(seconds=settings.JOB_REAP_SECONDS)
    waiting = IndexBuild.objects.filter(status=BuildStatus.QUEUED, created_at__lt=forgotten)
    for pk in (pks := list(waiting.values_list("pk", flat=True))):
        nudge(pk)
    return len(pks)


def run_build(build_id: int, *, on_progress: OnProgress = no_progress) -> IndexReport | None:
    """Claim and carry out a build; `None` when another worker has it. Its outcome is kept on the row either way."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    if not IndexBuild.objects.claim(build_id, owner):
        return None
    build = IndexBuild.objects.select_related("agent").get(pk=build_id)
    try:
        with _heartbeat(build_id, owner) as lease_lost:
            watched = _progress_on_row(build_id, owner, lease_lost, on_progress)
            report = _carry_out(build, watched)
    except ApplicationError as error:
        _finish(build, owner, BuildStatus.FAILED, error=f"{error.public_message} ({error})")
        raise
    except SoftTimeLimitExceeded:
        _finish(
            build, owner, BuildStatus.FAILED, error=_("Le travail a dépassé sa durée maximale.")
        )
        raise
    _finish(build, owner, BuildStatus.DONE, report=report)
    return report


def _carry_out(build: IndexBuild, on_progress: OnProgress) -> IndexReport:
    if build.kind == BuildKind.REBUILD:
        return fill_generation(
            agent=build.agent,
            method=IndexingMethod(build.method),
            generation=build.generation,
            on_progress=on_progress,
        )
    documents = list(Document.objects.filter(agent=build.agent, pk__in=build.document_ids))
    return index_documents(agent=build.agent, documents=documents, on_progress=on_progress)


def _finish(
    build: IndexBuild,
    owner: str,
    status: BuildStatus,
    *,
    report: IndexReport | None = None,
    error: str = "",
) -> None:
    IndexBuild.objects.filter(pk=build.pk, lease_owner=owner).update(
        status=status,
        report=report.as_json() if report else {},
        error=error,
        finished_at=timezone.now(),
    )


@contextmanager
def _heartbeat(build_id: int, owner: str) -> Iterator[threading.Event]:
    """Renew the lease from a thread of its own until the block ends; the event is set when the lease is lost.

    A build past its hard limit loses its lease too, also under a pool that enforces no limits.
    """
    stopped, lost = threading.Event(), threading.Event()
    limit = time.monotonic() + settings.JOB_HARD_LIMIT_SECONDS

    def beat() -> None:
        while not stopped.wait(settings.JOB_HEARTBEAT_SECONDS):
            close_old_connections()
            if time.monotonic() > limit or not IndexBuild.objects.renew(build_id, owner):
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


def _progress_on_row(
    build_id: int, owner: str, lease_lost: threading.Event, on_progress: OnProgress
) -> OnProgress:
    def report(done: int, total: int) -> None:
        if lease_lost.is_set():
            raise LeaseLostError(f"Build {build_id} was taken over by another worker.")
        IndexBuild.objects.filter(pk=build_id, lease_owner=owner).update(done=done, total=total)
        on_progress(done, total)

    return report
