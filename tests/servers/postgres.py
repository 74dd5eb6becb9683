"""A PostgreSQL server for the tests: one started for the run on a free loopback port, or else the one that is there.

Its own may lose everything in a power cut and need not wait for the disk: emptying all tables takes a ninth of the
time.
"""

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from tests.servers.of_the_run import once
from tests.servers.ports import free_port

LOCAL = "postgres://postgres@127.0.0.1:5432/postgres"
START_SECONDS = 120
#: Several sites of a run are on one server at once.
KEEPING = "-c max_connections=300 -c fsync=off -c full_page_writes=off"
WITHOUT_THE_DISK = f"{KEEPING} -c synchronous_commit=off"


@contextmanager
def postgres_url() -> Iterator[str | None]:
    """A URL with the right to create databases, or `None` where no server is there and none can be started.

    The server is the run's, started for the first test that asks: nothing is to be kept in it but in databases of one's
    own.
    """
    given = os.environ.get("TEST_POSTGRES_URL")
    if given or _programs() is None:
        yield next((url for url in (given, LOCAL) if url and _answers(url)), None)
        return
    yield once("postgres", _start_for_the_run).partition(" ")[0]


def _start_for_the_run() -> str:
    folder = tempfile.mkdtemp(prefix="repondant-postgres-")
    programs = _programs()
    assert programs is not None
    server = PostgresServer(programs, Path(folder), WITHOUT_THE_DISK)
    server.start()
    return f"{server.url} {folder}"


def stop_server(started: str) -> None:
    """What `postgres_url` started for the run, and all that it holds."""
    folder, programs = Path(started.partition(" ")[2]), _programs()
    assert programs is not None
    _run([programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop"])
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def own_postgres(*, keeps: bool = False) -> Iterator["PostgresServer | None"]:
    """A server that nobody else uses, or `None` where none can be started; one that `keeps` what was committed when it
    crashes.
    """
    programs = _programs()
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="repondant-postgres-") as folder:
        server = PostgresServer(programs, Path(folder), KEEPING if keeps else WITHOUT_THE_DISK)
        server.start()
        try:
            yield server
        finally:
            server.stop()


class PostgresServer:
    """It keeps its port and its rows through `stop` and `start`."""

    def __init__(self, programs: Path, folder: Path, options: str) -> None:
        self._programs = programs
        self._options = options
        self._folder = folder
        self._port = free_port()
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        words = ["-U", "postgres", "--auth", "trust", "--no-sync"]
        _run([programs / "initdb", "-D", folder / "data", *words])

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1"
        log = ["-l", self._folder / "log", "-o", f"{options} {self._options}"]
        self._control(*log, "-t", START_SECONDS, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """`fast` ends every connection in order, `immediate` as a crash does."""
        self._control("-m", mode, "-w", "stop")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All of its processes stopped: the kernel still takes connections, and nobody answers."""
        main = psutil.Process(int((self._folder / "data" / "postmaster.pid").read_text().split()[0]))
        processes = [main, *main.children()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def _control(self, *words: object) -> None:
        _run([self._programs / "pg_ctl", "-D", self._folder / "data", *words])


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.Error:
        return False
    return True


def _programs() -> Path | None:
    """The folder of `initdb`; Debian keeps it out of the path."""
    found = shutil.which("initdb")
    if found and Path(found).resolve().with_name("postgres").exists():
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return versions[-1] if versions else None


def _run(command: list[object]) -> None:
    """PostgreSQL refuses to run as root; its own user runs it there."""
    words = [str(word) for word in command]
    if getpass.getuser() == "root":
        words = ["runuser", "-u", "postgres", "--", *words]
    subprocess.run(words, check=True, capture_output=True, timeout=180, cwd="/")  # noqa: S603  # fixed programs
