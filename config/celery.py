"""The Celery application, and what every worker does beside its tasks: it says that it lives, and recovers.

Messages are nudges; rows (`Job`, `Turn`, `LearnedResponse`) are the truth. The recovery is a timer of the worker
itself, so that no scheduler process is needed.
"""

import math
import os
import sys
import time
from typing import Any

from celery import Celery, bootsteps
from celery.signals import task_postrun, worker_init
from celery.worker import state

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("repondant")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["agents"], related_name="jobs")

#: How often a worker without a broker looks for jobs.
POLL_SECONDS = 1.0
#: How long an embedded worker keeps its models: an upload soon after another waits for no worker to start.
LINGER_SECONDS = 30.0


class Maintenance(bootsteps.StartStopStep):
    """Recovers at start and every `JOB_REAP_SECONDS` (of several workers, one); a thread says that this one lives."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **_kwargs: Any) -> None:
        self._timers: list[Any] = []
        self._heartbeat: Any = None

    def start(self, parent: Any) -> None:
        from django.conf import settings

        from agents.jobs import Heartbeat
        from chat.serve import is_child

        self._heartbeat = Heartbeat(parent.hostname)
        self._heartbeat.start()
        if settings.JOB_REAP_SECONDS > 0:
            _look()
            self._timers.append(parent.timer.call_repeatedly(settings.JOB_REAP_SECONDS, _look))
        if not settings.HAS_BROKER:
            self._timers.append(parent.timer.call_repeatedly(POLL_SECONDS, _poll, (parent,)))
        if is_child():
            self._timers.append(parent.timer.call_repeatedly(POLL_SECONDS, _leave))

    def stop(self, parent: Any) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()


def _look() -> None:
    from agents import jobs
    from agents.models import JobKind

    with jobs.short_use("The recovery"):
        jobs.carry_out(jobs.ensure(JobKind.RECOVER).pk, in_background=True)


def _poll(worker: Any) -> None:
    """Send this worker itself, which has no broker, as many jobs that are due as it has processes free for them."""
    from agents import jobs

    if (free := worker.concurrency - len(state.reserved_requests)) > 0:
        with jobs.short_use("The recovery"):
            for job_id in jobs.due_jobs(free, slots=worker.concurrency):
                jobs.run_job.delay(job_id)


app.steps["worker"].add(Maintenance)


@worker_init.connect
def begin(**_kwargs: Any) -> None:
    """End with the server that started this worker; end at once, and say why, where documents cannot be read."""
    from django.db import connections

    from chat.serve import WORKER_STOP_SECONDS, end_with_the_parent
    from knowledge.checks import storage_problem

    end_with_the_parent(WORKER_STOP_SECONDS)
    problem = storage_problem()
    connections.close_all()
    if problem:
        sys.exit(problem)


_built_at = math.inf


@task_postrun.connect
def note_build(task: Any, args: Any, retval: Any, **_kwargs: Any) -> None:
    """Remember when the last indexing job ended, if this run did it (`retval`: also what was raised)."""
    from agents.jobs import RUN_TASK
    from knowledge.models import IndexBuild

    global _built_at
    if task.name == RUN_TASK and retval and IndexBuild.objects.filter(pk__in=args).exists():
        _built_at = time.monotonic()


def _leave() -> None:
    """End a worker that has nothing to do since its last indexing job: the models go with it, the next one is small."""
    if time.monotonic() - _built_at > LINGER_SECONDS and not state.reserved_requests:
        state.should_stop = os.EX_OK  # type: ignore[assignment]  # celery leaves it as `None` only
