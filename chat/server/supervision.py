"""Processes that `serve` keeps running: the worker, and the web processes where there are several."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from django.conf import settings

logger = logging.getLogger(__name__)

#: A child that dies is started again after this pause, doubled at each quick death up to the ceiling.
RESTART_SECONDS = 1.0
RESTART_CEILING_SECONDS = 60.0
#: How long a worker may take to end; its job goes on in the next one.
WORKER_STOP_SECONDS = 10.0
#: How often a child looks whether its server still lives.
PARENT_POLL_SECONDS = 1.0
_PARENT = "REPONDANT_PARENT_PID"


class Child:
    """A process that is started again when it dies.

    It leads a group of its own: a Ctrl+C of the terminal reaches the server alone, which then stops it in order.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        on_end: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """`environment` is added to this process's own; `on_end` is told the id of each process that has ended."""
        self._name = name
        self._command = list(command)
        self._pass_fds = tuple(pass_fds)
        self._environment = environment or {}
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        #: Reentrant: `terminate` may be called by a signal that interrupts it.
        self._starting = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name=f"{name}-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def terminate(self) -> None:
        """Ask it to end, and do not start it again; asked a second time, it does not wait for its work."""
        with self._starting:
            self._stopping.set()
            if self._process is not None and self.is_running():
                self._process.terminate()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; killed where that takes longer."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            logger.error("The %s did not end in time and is killed.", self._name)
            self._process.kill()
            self._process.wait()

    def _supervise(self) -> None:
        pause = RESTART_SECONDS
        while not self._stopping.is_set():
            began = time.monotonic()
            trouble = self._run_once()
            if time.monotonic() - began >= RESTART_CEILING_SECONDS:
                pause = RESTART_SECONDS
            if self._stopping.is_set():
                return
            if not trouble:
                # It wanted to be started anew; one that does nothing else is not to take a core.
                self._stopping.wait(max(0.0, began + RESTART_SECONDS - time.monotonic()))
                continue
            logger.error("The %s ended (%s); starting it again in %s s.", self._name, trouble, pause)
            self._stopping.wait(pause)
            pause = min(pause * 2, RESTART_CEILING_SECONDS)

    def _run_once(self) -> str:
        """One life of the process; what went wrong in it, empty where it ended by itself."""
        try:
            process = self._spawn()
        except OSError as error:
            return str(error)
        if process is None:
            return ""
        status = process.wait()
        try:
            self._on_end(process.pid)
        except OSError:
            logger.exception("What the %s left behind could not be tidied up.", self._name)
        return "" if status == os.EX_OK else f"status {status}"

    def _spawn(self) -> "subprocess.Popen[bytes] | None":
        with self._starting:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(  # noqa: S603  # a command of ours
                self._command,
                cwd=settings.BASE_DIR,
                env={**os.environ, **self._environment, _PARENT: str(os.getpid())},
                pass_fds=self._pass_fds,
                process_group=0,
            )
            return self._process


def is_child() -> bool:
    return _PARENT in os.environ


def end_with_the_parent(seconds: float) -> None:
    """In a child: end as by SIGTERM when the server was killed, and after so many seconds in any case: no orphan is
    left.

    What it was doing is interrupted then; leases see to it that it is taken up again.
    """
    parent = int(os.environ.get(_PARENT, "0"))
    if not parent:
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(seconds)
        os._exit(os.EX_TEMPFAIL)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
