"""What the tests of one run share, made when the first of them asks: a PostgreSQL server, and migrated databases that
are copied.

A server takes seconds to start and a hundred migrations as long; what is tested begins after them. Workers of a run
find each other by a folder that the run itself makes and removes (`tests/conftest.py`); a process outside of a run
keeps its own until it ends.
"""

import atexit
import fcntl
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from tests.servers.commands import python

_FOLDER = "REPONDANT_TEST_RUN"
_MIGRATE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""


def begin() -> None:
    """In the process that the run's workers are children of."""
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="repondant-run-")


def end() -> None:
    from tests.servers.postgres import stop_server

    folder = Path(os.environ.pop(_FOLDER))
    if (kept := folder / "postgres").exists():
        stop_server(kept.read_text())
    else:
        _drop_templates(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _drop_templates(folder: Path) -> None:
    """On a server that stays."""
    kept = [path for name in ("migrated", "filled") if (path := folder / f"{name}-postgres").exists()]
    if kept:
        from tests.servers.postgres import postgres_url

        with postgres_url() as server:
            assert server is not None
            with psycopg.connect(server, autocommit=True) as connection:
                for path in kept:
                    connection.execute(f'DROP DATABASE IF EXISTS "{path.read_text()}" WITH (FORCE)')


def once(name: str, make: Callable[[], str]) -> str:
    """What the run's first caller made under this name; of several at once one makes it."""
    with _locked(name) as kept:
        if not kept.exists():
            said = make()
            part = kept.with_suffix(".part")
            part.write_text(said)
            part.replace(kept)
        return kept.read_text()


def migrated_sqlite(target: Path) -> None:
    """A database as `migrate` leaves an empty one."""

    def make() -> str:
        template = run_folder() / "migrated.db"
        _migrate(f"sqlite:///{template}")
        with closing(sqlite3.connect(template)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return str(template)

    shutil.copy(once("sqlite", make), target)


def migrated_postgres(server: str) -> str:
    """The name of a database of this server, migrated and closed, of which others are made."""

    def make() -> str:
        name = copied_postgres(server, "template1")
        _migrate(f"{server.rsplit('/', 1)[0]}/{name}")
        return name

    return once("migrated-postgres", make)


def copied_postgres(server: str, template: str) -> str:
    """The name of a new database, a copy of one that nobody has open."""
    name = f"repondant_lab_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return name


def run_folder() -> Path:
    if _FOLDER not in os.environ:
        begin()
        atexit.register(end)
    return Path(os.environ[_FOLDER])


@contextmanager
def _locked(name: str) -> Iterator[Path]:
    kept = run_folder() / name
    with kept.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield kept


def _migrate(database: str) -> None:
    from tests.releases import keep

    python("-c", _MIGRATE, environment=keep.site_environment(run_folder(), database))
