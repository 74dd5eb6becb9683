"""Whether a worker lives: each writes its row every `WORKER_BEAT_SECONDS`, from a thread of its own.

A thread, because the worker that `serve` starts does nothing else while it runs a job. Connections are opened for one
beat and closed after it, and no process is forked meanwhile (`no_fork`): a forked process would close the connection of
the one that it came from.
"""

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from agents.database import close_connections, first_line
from agents.models import Worker

#: A worker gives a sign of life this often, ...
WORKER_BEAT_SECONDS = 10.0

logger = logging.getLogger(__name__)

#: How long a fork waits for another thread's use of the database; after that it goes on, whatever becomes of that use.
FORK_WAIT_SECONDS = 5.0

#: What a worker runs, for its row.
Running = Callable[[], list[dict[str, Any]]]

_using_the_database = threading.RLock()
_held_for_a_fork = threading.local()


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What is known of the workers together. `seconds`: since the last sign of life of any; `None` where none was ever
    seen.
    """

    state: Literal["ok", "silent", "never"]
    seconds: float | None = None
    seen_at: datetime | None = None
    alive: tuple[Worker, ...] = ()

    @property
    def is_missing(self) -> bool:
        return self.state != "ok"


def lease_owner() -> str:
    """Who holds a lease: this process, this once."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def worker_state() -> WorkerState:
    """One query. Raises `DatabaseError`."""
    now = timezone.now()
    limit = now - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    alive = tuple(Worker.objects.filter(beat_at__gte=limit).order_by("-beat_at"))
    last = alive[0] if alive else Worker.objects.order_by("-beat_at").first()
    if last is None:
        return WorkerState("never")
    seconds = max(0.0, (now - last.beat_at).total_seconds())
    return WorkerState("ok" if alive else "silent", seconds, last.beat_at, alive)


def announce(name: str) -> None:
    """A worker of this name is being started: it is not missing yet. Where the database is away, nothing is said."""
    try:
        _write(name, started_at=timezone.now(), running=[])
    except DatabaseError as error:
        logger.warning("The start of a worker could not be noted: %s", first_line(error))


class Heartbeat:
    """The beats of one worker, from `start` to `stop`. Where the database is away it goes on, and says so once."""

    def __init__(self, name: str, running: Running) -> None:
        self._name, self._running = name, running
        self._started_at = timezone.now()
        self._stopped = threading.Event()
        self._is_lost = False
        self._thread = threading.Thread(target=self._run, name="worker-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=FORK_WAIT_SECONDS)

    def beat(self) -> None:
        with no_fork():
            try:
                _write(self._name, started_at=self._started_at, running=self._running())
                self._is_lost = False
            except DatabaseError as error:
                if not self._is_lost:
                    logger.warning("No sign of life could be written: %s", first_line(error))
                self._is_lost = True
            finally:
                close_connections()

    def _run(self) -> None:
        while True:
            self.beat()
            if self._stopped.wait(WORKER_BEAT_SECONDS):
                return


@contextmanager
def no_fork() -> Iterator[None]:
    """While this process uses its database in passing, and closes the connection before the end."""
    with _using_the_database:
        yield


def _before_fork() -> None:
    _held_for_a_fork.value = _using_the_database.acquire(timeout=FORK_WAIT_SECONDS)


def _after_fork() -> None:
    if getattr(_held_for_a_fork, "value", False):
        _held_for_a_fork.value = False
        _using_the_database.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _write(name: str, *, started_at: datetime, running: list[dict[str, Any]]) -> None:
    Worker.objects.update_or_create(
        name=name[:200],
        defaults={
            "host": socket.gethostname()[:200],
            "version": str(settings.SPECTACULAR_SETTINGS["VERSION"]),
            "started_at": started_at,
            "beat_at": timezone.now(),
            "running": running,
        },
    )
