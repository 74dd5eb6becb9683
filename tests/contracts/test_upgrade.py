"""The kept site of each release, brought up to date: it answers, is read and administered as before."""

import gzip
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.resilience.site import MissingServerError, own_database
from chat.serve import MIGRATION_LOCK_SECONDS
from config.version import VERSION
from tests.releases import keep
from tests.releases.kept_site import AGENT, QUESTIONS

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

RELEASES = sorted(path.name for path in keep.HERE.iterdir() if (path / keep.HASHES).exists())


class Kept:
    """One release's site, restored, with the commands of this version on it."""

    def __init__(self, release: str, folder: Path, database: str) -> None:
        self.environment = keep.site_environment(folder, database)
        shutil.copytree(keep.HERE / release / "documents", folder / "data" / "documents")

    def run(self, *words: str) -> str:
        done = self.tried(*words)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  # our own commands
            [sys.executable, *words],
            cwd=keep.PROJECT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def told(self, *commands: str) -> dict[str, Any]:
        """What the site says and shows after these commands of `manage.py`, in one process."""
        told = self.run("-m", "tests.releases.questioning", *commands)
        found: dict[str, Any] = json.loads(told)
        return found


def statements(release: str, name: str) -> str:
    return gzip.decompress((keep.HERE / release / name).read_bytes()).decode()


def on_sqlite(release: str, folder: Path) -> str:
    with closing(sqlite3.connect(folder / "site.db")) as restored:
        restored.executescript(statements(release, keep.SQLITE))
    return f"sqlite:///{folder / 'site.db'}"


@contextmanager
def on_postgresql(release: str) -> Iterator[str]:
    with ExitStack() as stack:
        try:
            url = stack.enter_context(own_database())
        except MissingServerError as missing:
            pytest.skip(str(missing))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statements(release, keep.POSTGRESQL).encode())
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, release: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the release's database, as it was when it was kept."""
    if request.param == "sqlite":
        yield on_sqlite(release, tmp_path)
    else:
        with on_postgresql(release) as url:
            yield url


@pytest.mark.parametrize("release", RELEASES)
def test_upgraded_site_answers_as_before(release: str, database: str, tmp_path: Path) -> None:
    site = Kept(release, tmp_path, database)
    migrated = site.tried("manage.py", "migrate", "--verbosity", "0")
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    # Its rows are of every table, those of retired features included: what goes is said.
    if release == "0.2.0":
        assert "rows of tools_registry.LabelledQuestion are dropped" in migrated.stderr
    check(site.told())
    # What an operator may do next; neither is needed for the answers above.
    check(site.told("sync_faqs", f"rebuild_agent_index {AGENT}"))


def check(told: dict[str, Any]) -> None:
    *answers, refused = told["answers"]
    for (question, piece, source), row in zip(QUESTIONS, answers, strict=True):
        assert piece in row["answer"], question
        assert row["answer_source"] == source, question
    assert refused["answer"] == "Hors de notre domaine."
    assert told["conversation"] == ["Le marché est-il ouvert le dimanche ?", "Oui, de 8 à 13 h."]
    assert {name for name, status in told["pages"].items() if status != 200} == set()
    assert len(told["pages"]) > 40
    assert told["ready"] == VERSION


@pytest.mark.parametrize("release", RELEASES)
def test_migrations_of_a_release_are_frozen(release: str) -> None:
    """Databases name the migrations that they had: a changed one is applied nowhere, or stops an upgrade."""
    now = dict(keep.migration_hashes(keep.PROJECT))
    kept = (keep.HERE / release / keep.HASHES).read_text().splitlines()
    frozen = {path: digest for digest, path in (line.split("  ") for line in kept)}
    assert frozen
    assert {path for path, digest in frozen.items() if now.get(path) != digest} == set()


@pytest.mark.parametrize("applied", [("0001_initial", "0002_answers_and_tools"), ()])
def test_history_that_leads_nowhere_is_told_in_words(applied: tuple[str, ...], tmp_path: Path) -> None:
    """As the databases of one stretch before 0.1.0 are, whose migrations stopped half-way."""
    site = Kept("0.1.0", tmp_path, on_sqlite("0.1.0", tmp_path))
    with closing(sqlite3.connect(tmp_path / "site.db")) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'agents'")
        rows = [("agents", name) for name in applied]
        added = "INSERT INTO django_migrations (app, name, applied) VALUES (?, ?, '2026-01-01')"
        connection.executemany(added, rows)
        connection.commit()
    for command in ("migrate", "serve"):
        done = site.tried("manage.py", command)
        assert done.returncode == 1
        assert "a version before 0.1.0" in done.stderr
        assert "Traceback" not in done.stderr


def test_migration_does_not_stand_before_questions(tmp_path: Path) -> None:
    """While somebody holds a table (a back-up does), who reads it does not wait behind the migration; it follows."""
    with on_postgresql("0.1.0") as url, psycopg.connect(url) as holder:
        site = Kept("0.1.0", tmp_path, url)
        holder.execute("SELECT count(*) FROM chat_feedback")  # the transaction stays open
        done: list[subprocess.CompletedProcess[str]] = []
        migrating = threading.Thread(target=lambda: done.append(site.tried("manage.py", "migrate")))
        migrating.start()
        longest = longest_read(url, most_seconds=90)
        assert migrating.is_alive()
        holder.rollback()
        migrating.join(120)
        assert done[0].returncode == 0, done[0].stderr
        assert "A table is in use" in done[0].stderr
        # What a migration waits, and what a busy machine adds.
        assert longest < 2


def longest_read(url: str, *, most_seconds: float) -> float:
    """The longest time that reading the held table took, until it stood behind the waiting migration twice."""
    longest, waits, end = 0.0, 0, time.monotonic() + most_seconds
    with psycopg.connect(url, autocommit=True) as reader:
        while (began := time.monotonic()) < end and waits < 2:
            reader.execute("SELECT count(*) FROM chat_feedback")
            took = time.monotonic() - began
            longest, waits = (max(longest, took), waits + (took > MIGRATION_LOCK_SECONDS / 4))
            time.sleep(0.02)
    return longest


def test_more_connections_than_the_server_gives_are_told_before_they_are_refused(tmp_path: Path) -> None:
    told = "from chat.serve import pools_problem; print(pools_problem(2))"
    with on_postgresql("0.1.0") as url:
        site = Kept("0.1.0", tmp_path, url)
        site.environment["DATABASE_POOL_SIZE"] = "10"
        assert site.run("manage.py", "shell", "--no-imports", "-c", told).strip() == "None"
        site.environment["DATABASE_POOL_SIZE"] = "1000"
        said = site.run("manage.py", "shell", "--no-imports", "-c", told)
        assert "may open 3000 connections" in said
