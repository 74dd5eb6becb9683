"""The Celery application, and the reaper that every worker runs.

Messages are nudges; rows (`IndexBuild`, `Turn`) with their leases are the truth. The reaper is a timer of the worker itself, so that no
scheduler process is needed.
"""

import logging
import os
import signal
import threading
import time
from typing import Any

from celery import Celery, bootsteps
from celery.signals import task_postrun, worker_init
from celery.worker import state

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("repondant")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

#: How often an embedded worker looks whether its server still lives.
PARENT_POLL_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Reaper(bootsteps.StartStopStep):
    """Looks for abandoned and forgotten builds, and for turns of dead processes, at start and then every `JOB_REAP_SECONDS`."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, parent: Any, **_kwargs: Any) -> None:
        self._timer: Any = None

    def start(self, parent: Any) -> None:
        from django.conf import settings

        _reap()
        self._timer = parent.timer.call_repeatedly(settings.JOB_REAP_SECONDS, _reap)

    def stop(self, parent: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _reap() -> None:
    from django.db import DatabaseError, close_old_connections

    from chat.thread import interrupt_stale_turns
    from knowledge.indexing.jobs import reap_builds

    close_old_connections()
    try:
        reap_builds()
        interrupt_stale_turns()
    except DatabaseError:
        logger.exception("The reaper could not reach the database; it tries again.")
    finally:
        close_old_connections()


app.steps["worker"].add(Reaper)


@worker_init.connect
def die_with_the_server(**_kwargs: Any) -> None:
    """A worker that `serve` started stops when that server was killed: no orphan is left."""
    parent = int(os.environ.get("REPONDANT_PARENT_PID", "0"))
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


@task_postrun.connect
def leave_after_a_build(task: Any, **_kwargs: Any) -> None:
    """An embedded worker ends after an indexing job and is started anew: the models it loaded go with it."""
    if os.environ.get("REPONDANT_PARENT_PID") and task.name.endswith("run_index_build"):
        state.should_stop = os.EX_OK  # type: ignore[assignment]  # celery leaves it as `None` only
