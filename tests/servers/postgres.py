"""A PostgreSQL server for the tests: one started for the run on a free loopback port, or else the one that is there.

Its own may lose everything in a power cut and need not wait for the disk: emptying all tables takes a ninth of the time.
"""

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.servers.ports import free_port

LOCAL = "postgres://postgres@127.0.0.1:5432/postgres"
START_SECONDS = 120
WITHOUT_THE_DISK = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off"


@contextmanager
def postgres_url() -> Iterator[str | None]:
    """A URL with the right to create databases, or `None` where no server is there and none can be started."""
    given = os.environ.get("TEST_POSTGRES_URL")
    programs = _programs()
    if given or programs is None:
        yield next((url for url in (given, LOCAL) if url and _answers(url)), None)
        return
    with tempfile.TemporaryDirectory(prefix="repondant-postgres-") as folder:
        url = _start(programs, Path(folder))
        try:
            yield url
        finally:
            _run([programs / "pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop"])


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


def _start(programs: Path, folder: Path) -> str:
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    port = free_port()
    data = folder / "data"
    _run([programs / "initdb", "-D", data, "-U", "postgres", "--auth", "trust", "--no-sync"])
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 {WITHOUT_THE_DISK}"
    log = folder / "log"
    _run(
        [
            programs / "pg_ctl",
            "-D",
            data,
            "-l",
            log,
            "-o",
            options,
            "-t",
            START_SECONDS,
            "-w",
            "start",
        ]
    )
    return f"postgres://postgres@127.0.0.1:{port}/postgres"


def _run(command: list[object]) -> None:
    """PostgreSQL refuses to run as root; its own user runs it there."""
    words = [str(word) for word in command]
    if getpass.getuser() == "root":
        words = ["runuser", "-u", "postgres", "--", *words]
    subprocess.run(words, check=True, capture_output=True, timeout=180, cwd="/")  # noqa: S603  # fixed programs
