"""Background jobs: rows that are enqueued, claimed by a lease, renewed, finished and recovered in one way.

The row of a `Job` is the truth; a Celery message is a nudge. A thread renews the lease; a dead process's runs out:
`recover` queues the job again, and its verb (`settings.JOBS`) resumes from the rows. A failure that may pass is retried
after a pause that doubles. One job of a kind and key is open at a time: a second request joins it.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from celery import current_app, shared_task
from celery.exceptions import OperationalError, SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, IntegrityError, close_old_connections, connection, transaction
from django.db.models import F, Min, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.database import close_connections, first_line, is_surprising, named_trouble, short_write
from agents.errors import ApplicationError, StorageUnavailableError
from agents.models import GIVEN_UP_JOBS, OPEN_JOBS, Agent, Job, JobKind, JobStatus

logger = logging.getLogger(__name__)

#: The pause before a job that failed for a reason that may pass is tried again, doubled each time up to the ceiling.
JOB_RETRY_SECONDS = 15.0
JOB_RETRY_CEILING_SECONDS = 900.0
#: A worker gives a sign of life this often.
WORKER_BEAT_SECONDS = 10.0
#: The one task: a message says no more than that this job may be begun.
RUN_TASK = "agents.jobs.run_job"
#: Rows that stand for no work, and the one that is looked at all the time.
_NO_WORK = (JobKind.RECOVER, JobKind.WORKER, JobKind.PROBE)
#: Small work that leaves no row once it is done.
_FORGOTTEN = (
    *(JobKind.RECONCILE, JobKind.REMOVE_POINTS, JobKind.DROP_INDEXES, JobKind.ANSWERS, JobKind.REMOVE_ANSWERS),
    *(JobKind.TOOLS, JobKind.TOOL_SOURCE, JobKind.HELP_MAIL),
)
#: What is left of them answers until they are done: where the store is away, they are tried until it is back.
_TRIED_FOR_EVER = (JobKind.REMOVE_POINTS, JobKind.DROP_INDEXES, JobKind.REMOVE_ANSWERS, JobKind.HELP_MAIL)
#: How often every agent's indexes are compared with their rows.
RECONCILE_SECONDS = 300.0
_JOIN_ATTEMPTS = 3
#: How many jobs one look of the recovery nudges again; a message that comes twice does nothing.
_MOST_NUDGED = 50
#: How long a fork waits for another thread's use of the database; after that it goes on, whatever becomes of that use.
_FORK_WAIT_SECONDS = 5.0


class LeaseLostError(ApplicationError):
    """Another process has taken the job over; this one must stop writing."""

    code = "lease_lost"


class JobCancelledError(ApplicationError):
    """Staff cancelled the job; what is done is kept, and it can be tried again."""

    code = "job_cancelled"
    default_message = gettext_lazy("Ce travail a été annulé.")


class UnexpectedJobError(ApplicationError):
    """An unforeseen error; the log has its traceback."""

    code = "job_failed"
    default_message = gettext_lazy("Erreur inattendue ; le journal du worker la détaille.")


#: Called with the done and the total count of a phase, and its name; may raise to stop the work.
OnProgress = Callable[[int, int, Any], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a verb; `value` is for a caller that runs the verb inline."""

    status: JobStatus = JobStatus.DONE
    #: `None` leaves what an earlier attempt told.
    report: dict[str, Any] | None = None
    error: str = ""
    #: Where something failed that may pass: why. A worker tries again later, as long as there are attempts.
    retry_because: str = ""
    #: Where it is not over: when it goes on. This is no failure, and no attempt is counted.
    again_at: datetime | None = None
    value: Any = None


@dataclass(slots=True)
class Held:
    """A claimed job, as its verb gets it: the row, its lease, its progress."""

    job: Job
    lost: threading.Event
    watcher: OnProgress
    #: Run by a worker, not by a command that somebody watches.
    in_background: bool
    _phase: str | None = None

    def keep(self, **changes: Any) -> None:
        """Update the job's row in the caller's transaction, if any; raises where the job is lost or cancelled."""
        if not self.lost.is_set() and _mine(self.job).update(**changes):
            return
        if Job.objects.filter(pk=self.job.pk, status=JobStatus.CANCELLED).exists():
            raise JobCancelledError(f"Job {self.job.pk} was cancelled.")
        raise LeaseLostError(f"Job {self.job.pk} was taken over by another process.")

    def progress(self, done: int, total: int, phase: Any = "", /) -> None:
        changes: dict[str, Any] = {"done": done, "total": total}
        if phase != self._phase:
            self._phase = phase
            changes |= {"phase": phase, "phase_started_at": timezone.now()}
        self.keep(**changes)
        self.watcher(done, total, phase)


def enqueue(
    kind: JobKind,
    *,
    key: str = "",
    payload: Mapping[str, Any] | None = None,
    agent: Agent | None = None,
    total: int = 0,
    again: bool = True,
    tells: bool = True,
) -> Job:
    """Queue a job, or join the open one of this key, which unites the lists of both payloads and runs `again`.

    `tells`: a worker is notified after the commit; else the caller runs the job, or notifies one later.
    """
    payload = dict(payload or {})
    for _attempt in range(_JOIN_ATTEMPTS):
        job = _join(kind, key, payload, again=again) if key else None
        try:
            with transaction.atomic():
                job = job or Job.objects.create(kind=kind, key=key, agent=agent, payload=payload, total=total)
        except IntegrityError:
            continue  # another was queued in between: it is joined
        if tells:
            transaction.on_commit(partial(nudge, job.pk))
        return job
    raise ApplicationError(f"A job {kind} {key} could not be queued.")


def _join(kind: JobKind, key: str, payload: Mapping[str, Any], *, again: bool) -> Job | None:
    with short_write():
        job = Job.objects.select_for_update().filter(kind=kind, key=key, status__in=OPEN_JOBS).first()
        if job is None or not again:
            return job
        united = {
            name: sorted({*job.payload.get(name, ()), *value}) if isinstance(value, list) else value
            for name, value in payload.items()
        }
        job.payload |= united
        still_open = Job.objects.filter(pk=job.pk, status__in=OPEN_JOBS)
        return job if still_open.update(payload=job.payload, asked=F("asked") + 1) else None


def due_jobs(limit: int, *, slots: int = 1, **conditions: Any) -> list[int]:
    """Queued jobs that can begin now, by id, the oldest first; of this process's `slots`, long ones leave one free."""
    waiting = Job.objects.due().exclude(kind__in=_NO_WORK).filter(**conditions).order_by("pk")
    ids = waiting.values_list("pk", flat=True)
    quick = Q(kind__in=[JobKind.DOCUMENTS, *_FORGOTTEN], payload__is_long__isnull=True)
    here = Job.objects.filter(status=JobStatus.RUNNING, lease_owner__startswith=lease_owner()[:-8])
    room = max(0, slots - 1 - here.exclude(quick).count()) if slots > 1 else limit
    return sorted([*ids.filter(quick)[:limit], *ids.exclude(quick)[:room]])[:limit]


def nudge(job_id: int, *, expires: float | None = None) -> None:
    """Notify a worker of a job. Without a broker the row waits, and `recover` nudges again."""
    if not settings.HAS_BROKER:
        return  # Workers look for themselves.
    try:
        current_app.send_task(RUN_TASK, args=[job_id], expires=expires)
    except OperationalError:
        logger.warning("The broker is unreachable; job %s waits.", job_id)
        Job.objects.filter(pk=job_id, status=JobStatus.QUEUED).update(
            error=_(
                "La file des tâches est injoignable : rien n’est perdu, ce travail commencera de lui-même dès son retour."
            )
        )


def cancel(job: Job) -> bool:
    """Stop a job that is queued or running; what it has done is kept, and `retry` resumes it."""
    return _take(job, OPEN_JOBS, JobStatus.CANCELLED, finished_at=timezone.now())


def retry(job: Job, **changes: Any) -> bool:
    """Queue a failed or cancelled job as new; `False` where it is neither. Raises `IntegrityError` if its key is open."""
    with transaction.atomic():
        taken = _take(job, GIVEN_UP_JOBS, JobStatus.QUEUED, attempts=0, error="", finished_at=None, **changes)
    if taken:
        transaction.on_commit(partial(nudge, job.pk))
    return taken


def _take(job: Job, before: tuple[JobStatus, ...], after: JobStatus, **changes: Any) -> bool:
    """Move a job from one of these states to another; one caller wins."""
    rows = Job.objects.filter(pk=job.pk, status__in=before)
    return bool(rows.update(status=after, lease_owner="", not_before=None, **changes))


def waiting_seconds() -> float:
    """The waiting time of the oldest job that can begin; 0 without one. A retried job waits from its retry time on."""
    waiting = Job.objects.due().exclude(kind__in=_NO_WORK)
    since = waiting.aggregate(since=Min(Coalesce("not_before", "created_at")))["since"]
    return max(0.0, (timezone.now() - since).total_seconds()) if since else 0.0


@shared_task(name=RUN_TASK, soft_time_limit=settings.JOB_SOFT_LIMIT_SECONDS, time_limit=settings.JOB_HARD_LIMIT_SECONDS)
def run_job(job_id: int) -> bool:
    """Run a job; returns whether there was anything to do, since a message may come late or twice."""
    try:
        return carry_out(job_id, in_background=True) is not None
    except ApplicationError as error:
        # Its row says so; Celery would print where.
        logger.warning("Job %s failed: %s", job_id, " ".join(str(error).split()))
        return True


def carry_out(job_id: int, *, on_progress: OnProgress = lambda *_: None, in_background: bool = False) -> Outcome | None:
    """Claim a job and do it; `None` where another has it. In the background, a passing failure is queued again."""
    owner = lease_owner()
    if not Job.objects.claim(job_id, owner):
        return None
    job = Job.objects.select_related("agent").get(pk=job_id)
    try:
        with named_trouble(), _renewed(job_id, owner) as lost:
            held = Held(job, lost, on_progress, in_background)
            outcome = import_string(settings.JOBS[job.kind])(held) or Outcome()
    except ApplicationError as error:
        if isinstance(error, StorageUnavailableError):
            # Over a connection that the database has closed nothing can be said.
            close_connections()
        reason = f"{error.public_message} ({error})"
        if in_background and error.retryable and _retry_later(job, reason, Outcome()):
            return Outcome(JobStatus.QUEUED, error=reason)
        _finish(job, Outcome(JobStatus.FAILED, error=reason))
        raise
    except SoftTimeLimitExceeded:
        _finish(job, Outcome(JobStatus.FAILED, error=_("Le travail a dépassé sa durée maximale.")))
        raise
    except Exception as error:
        # The edge of the job: whatever went wrong, its row says so and no worker takes it for running.
        logger.exception("Job %s (%s) failed unexpectedly.", job_id, job.kind)
        failure = UnexpectedJobError(f"{type(error).__name__}: {error}"[:1_000])
        _finish(job, Outcome(JobStatus.FAILED, error=f"{failure.public_message} ({failure})"))
        raise failure from error
    if in_background and outcome.retry_because and _retry_later(job, outcome.retry_because, outcome):
        return outcome
    if outcome.again_at is not None:
        _go_on_at(job, outcome.again_at, outcome)
    else:
        _finish(job, outcome)
    return outcome


def _mine(job: Job) -> "QuerySet[Job]":
    return Job.objects.filter(pk=job.pk, lease_owner=job.lease_owner, status=JobStatus.RUNNING)


def _finish(job: Job, outcome: Outcome) -> None:
    """Store the outcome; a job requested again while it ran is queued again, one taken over is left alone."""
    now = timezone.now()
    mine = _mine(job).filter(asked=job.asked)
    if not mine.update(status=outcome.status, error=outcome.error, finished_at=now, **_told(outcome)):
        _go_on_at(job, now, outcome)
    elif outcome.status is JobStatus.DONE and job.kind in _FORGOTTEN:
        # Ended first: Django deletes what it has selected before, and a request in between would go with it.
        Job.objects.filter(pk=job.pk, status=JobStatus.DONE).delete()


def _queue_again(job: Job, moment: datetime, outcome: Outcome, **changes: Any) -> bool:
    changes |= {"status": JobStatus.QUEUED, "not_before": moment, "lease_owner": "", **_told(outcome)}
    return bool(_mine(job).update(**changes))


def _told(outcome: Outcome) -> dict[str, Any]:
    return {} if outcome.report is None else {"report": outcome.report}


def _go_on_at(job: Job, moment: datetime, outcome: Outcome) -> None:
    """Queue the rest of the job for this moment, with its attempts reset, because this is no failure."""
    now = timezone.now()
    queued = _queue_again(job, moment, outcome, error=outcome.error, attempts=0, finished_at=now)
    if queued and moment <= now and job.kind not in _NO_WORK:
        nudge(job.pk)


def _retry_later(job: Job, reason: str, outcome: Outcome) -> bool:
    """Queue the job again after a pause that doubles; `False` when its attempts are used up."""
    if job.attempts >= settings.JOB_MAX_ATTEMPTS and job.kind not in _TRIED_FOR_EVER:
        return False
    pause = min(JOB_RETRY_SECONDS * 2 ** min(job.attempts - 1, 10), JOB_RETRY_CEILING_SECONDS)
    _queue_again(job, timezone.now() + timedelta(seconds=pause), outcome, error=reason)
    return True


@contextmanager
def _renewed(job_id: int, owner: str) -> Iterator[threading.Event]:
    """Renew the lease until the block ends, or the hard limit of a job; the event is set when the lease is lost."""
    stopped, lost = threading.Event(), threading.Event()
    limit = time.monotonic() + settings.JOB_HARD_LIMIT_SECONDS

    def beat() -> None:
        while not stopped.wait(settings.JOB_HEARTBEAT_SECONDS):
            close_old_connections()
            try:
                is_held = Job.objects.renew(job_id, owner)
            except DatabaseError as error:
                # Busy, full or away for now: the next beat comes before the lease ends.
                said = "The lease of job %s could not be renewed: %s"
                logger.warning(said, job_id, first_line(error), exc_info=is_surprising(error))
                is_held = True
            if time.monotonic() > limit or not is_held:
                lost.set()
                break
        connection.close()

    thread = threading.Thread(target=beat, name=f"lease-{job_id}", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        stopped.set()
        thread.join(timeout=5)


def lease_owner() -> str:
    """A new identifier of a lease's holder: host, process and a random part of eight characters."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def ensure(kind: JobKind) -> Job:
    """The open job of a kind that queues itself again (`Outcome.again_at`), created if missing."""
    return enqueue(kind, key=kind, again=False, tells=False)


def recover() -> int:
    """Queue the jobs of dead processes again, or fail them after their last try; nudge the oldest that wait."""
    now = timezone.now()
    expired = Job.objects.expired()
    expired.filter(attempts__gte=settings.JOB_MAX_ATTEMPTS).update(
        status=JobStatus.FAILED, finished_at=now, error=_("Le worker s’est arrêté à chaque essai ; voir son journal.")
    )
    expired.update(status=JobStatus.QUEUED, lease_owner="")
    pks = due_jobs(_MOST_NUDGED, created_at__lt=now - timedelta(seconds=settings.JOB_REAP_SECONDS))
    for pk in pks:
        nudge(pk, expires=settings.JOB_REAP_SECONDS)
    return len(pks)


def recover_all(held: Held) -> Outcome:
    """Recover jobs, then run each app's own recovery (`settings.RECOVERY`); a failing step stops no other."""
    failed: dict[str, str] = {}
    for name, path in settings.RECOVERY.items():
        try:
            import_string(path)()
        except DatabaseError:
            raise
        except Exception as error:
            failed[name] = first_line(error)[:500]
            logger.exception("The recovery of %s failed.", name)
    now = timezone.now()
    lately = Job.objects.filter(
        status=JobStatus.FAILED, finished_at__gt=now - timedelta(seconds=JOB_RETRY_CEILING_SECONDS)
    )
    for kind in (JobKind.RECONCILE, JobKind.RETENTION):
        # One that cannot be done would fill the table with its failures.
        if not lately.filter(kind=kind).exists():
            ensure(kind)
    # A little early: the next worker that looks finds it due.
    began = held.job.started_at or now
    again_at = began + timedelta(seconds=0.8 * settings.JOB_REAP_SECONDS)
    return Outcome(report={"failed": failed} if failed else {}, again_at=again_at)


_using_the_database = threading.RLock()
_held_for_a_fork = threading.local()


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of all workers together. `seconds`: since the last heartbeat of any, `None` without one."""

    state: Literal["ok", "silent", "never"]
    seconds: float | None = None
    seen_at: datetime | None = None
    alive: tuple[Job, ...] = ()


def worker_state() -> WorkerState:
    """One query. Raises `DatabaseError`."""
    now = timezone.now()
    workers = Job.objects.filter(kind=JobKind.WORKER).order_by("-lease_expires_at")
    alive = tuple(workers.filter(lease_expires_at__gte=now))
    last = alive[0] if alive else workers.first()
    if last is None or last.lease_expires_at is None:
        return WorkerState("never")
    seen_at = last.lease_expires_at - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    seconds = max(0.0, (now - seen_at).total_seconds())
    return WorkerState("ok" if alive else "silent", seconds, seen_at, alive)


class Heartbeat(threading.Thread):
    """The heartbeat of one worker, in a thread with connections of its own, which a fork meanwhile would close."""

    def __init__(self, worker: str) -> None:
        super().__init__(name="worker-heartbeat", daemon=True)
        self._worker = worker[:200]
        self._started_at = timezone.now()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=_FORK_WAIT_SECONDS)

    def beat(self) -> None:
        """Note that the worker lives; alone, that it is starting and does not count as missing."""
        values = {
            "status": JobStatus.RUNNING,
            "lease_owner": self._worker,
            "lease_expires_at": timezone.now() + timedelta(seconds=settings.WORKER_SILENT_SECONDS),
            "started_at": self._started_at,
        }
        with short_use("The heartbeat"):
            Job.objects.update_or_create(kind=JobKind.WORKER, key=self._worker, defaults=values)

    def run(self) -> None:
        self.beat()
        while not self._stopped.wait(WORKER_BEAT_SECONDS):
            self.beat()


@contextmanager
def short_use(who: str) -> Iterator[None]:
    """Use the database in a process that forks: no fork meanwhile, no connection left for one; trouble is logged."""
    with _using_the_database:
        try:
            yield
        except DatabaseError as error:
            said = "%s could not use the database: %s"
            logger.warning(said, who, first_line(error), exc_info=is_surprising(error))
        finally:
            close_connections()


def _before_fork() -> None:
    _held_for_a_fork.value = _using_the_database.acquire(timeout=_FORK_WAIT_SECONDS)


def _after_fork() -> None:
    if getattr(_held_for_a_fork, "value", False):
        _held_for_a_fork.value = False
        _using_the_database.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
