"""A worker of a test's own, on a broker and a database that it is given; it may be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.servers.commands import PROJECT, python


class WorkerProcess:
    """`with WorkerProcess(folder, environment) as worker: worker.output()`; it leads a group of its own, which is
    killed at the end.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], processes: int = 2, pool: str = "prefork") -> None:
        self._log = folder / "worker.log"
        self.environment = {
            **os.environ,
            "DJANGO_ALLOW_ASYNC_UNSAFE": "",
            "DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "tests.servers.worker_settings",
            **environment,
        }
        self._command = [sys.executable, "-m", "celery", "--app", "config", "worker"]
        self._command += ["--pool", pool, "--concurrency", str(processes)]
        self._command += ["--loglevel", "INFO", "--without-gossip", "--without-mingle"]
        self._process: subprocess.Popen[bytes] | None = None

    def manage(self, *args: str) -> str:
        """A command of the project on the worker's database; its standard output."""
        return python("manage.py", *args, environment=self.environment).stdout

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own worker
                self._command, cwd=PROJECT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """The worker and the processes it forked, at once."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def has_ended(self) -> bool:
        """By itself, whatever its status."""
        return self._process is not None and self._process.poll() is not None

    def children(self) -> list[int]:
        assert self._process is not None
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def output(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.kill()
