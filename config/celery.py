"""The Celery application, and the reaper that every worker runs.

Messages are nudges; rows (`IndexBuild`, `Turn`, `LearnedResponse`) are the truth. The reaper is a timer of the worker itself, so that no
scheduler process is needed.
"""

import logging
import os
from typing import Any

from celery import Celery, bootsteps
from celery.signals import task_postrun, worker_init
from celery.worker import state

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("repondant")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

logger = logging.getLogger(__name__)


class Reaper(bootsteps.StartStopStep):
    """Looks for abandoned and forgotten work, and for turns of dead processes, at start and then every `JOB_REAP_SECONDS`.

    At start and every `RECONCILE_SECONDS` it asks for a look at what was changed without a signal.
    """

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **_kwargs: Any) -> None:
        self._timers: list[Any] = []

    def start(self, parent: Any) -> None:
        from django.conf import settings

        _reap()
        self._timers = [parent.timer.call_repeatedly(settings.JOB_REAP_SECONDS, _reap)]
        if settings.RECONCILE_SECONDS > 0:
            _reconcile()
            self._timers.append(
                parent.timer.call_repeatedly(settings.RECONCILE_SECONDS, _reconcile)
            )

    def stop(self, parent: Any) -> None:
        for timer in self._timers:
            timer.cancel()


def _reap() -> None:
    from django.db import DatabaseError, close_old_connections

    from chat.archive.retention import forget_expired
    from chat.runs.stale import interrupt_stale_turns
    from faqs.choices import purge_choices
    from faqs.indexing import reap_learned
    from faqs.memory.large import tidy_indexes
    from faqs.unanswered import tidy_unanswered
    from knowledge.indexing.jobs.lease import reap_builds
    from knowledge.indexing.jobs.reconciliation import enqueue_due_refreshes

    close_old_connections()
    try:
        reap_builds()
        enqueue_due_refreshes()
        interrupt_stale_turns()
        reap_learned()
        tidy_unanswered()
        purge_choices()
        tidy_indexes()
        forget_expired()
    except DatabaseError:
        logger.exception("The reaper could not reach the database; it tries again.")
    finally:
        close_old_connections()


def _reconcile() -> None:
    from celery.exceptions import OperationalError

    from knowledge.indexing.jobs.reconciliation import RECONCILE_TASK

    try:
        # Several workers ask at the same time; the message of one is enough and does not outlive the next.
        app.send_task(RECONCILE_TASK, expires=60)
    except OperationalError:
        logger.warning("The broker is unreachable; the indexes are compared later.")


app.steps["worker"].add(Reaper)


@worker_init.connect
def die_with_the_server(**_kwargs: Any) -> None:
    from chat.server.supervision import WORKER_STOP_SECONDS, end_with_the_parent

    end_with_the_parent(WORKER_STOP_SECONDS)


@task_postrun.connect
def leave_after_a_build(task: Any, **_kwargs: Any) -> None:
    """An embedded worker ends after an indexing job and is started anew: the models it loaded go with it."""
    from chat.server.supervision import is_child

    if is_child() and task.name.endswith("run_index_build"):
        state.should_stop = os.EX_OK  # type: ignore[assignment]  # celery leaves it as `None` only
