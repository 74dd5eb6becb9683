"""The kept site of each release, brought up to date: it answers, is read and administered as before."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.resilience.site import own_database
from config.version import VERSION
from tests.releases import keep
from tests.releases.kept_site import AGENT, QUESTIONS
from tests.servers.commands import PROJECT, python

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

RELEASES = sorted(path.name for path in keep.HERE.iterdir() if (path / keep.HASHES).exists())


class Kept:
    """One release's site, restored, with the commands of this version on it."""

    def __init__(self, release: str, folder: Path, database: str) -> None:
        self.environment = keep.site_environment(folder, database)
        shutil.copytree(keep.HERE / release / "documents", folder / "data" / "documents")

    def told(self, *commands: str) -> dict[str, Any]:
        """What the site says and shows after these commands of `manage.py`, in one process."""
        ran = python("-m", "tests.releases.questioning", *commands, environment=self.environment)
        found: dict[str, Any] = json.loads(ran.stdout)
        return found


def statements(release: str, name: str) -> str:
    return gzip.decompress((keep.HERE / release / name).read_bytes()).decode()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, release: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the release's database, as it was when it was kept."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "site.db")) as restored:
            restored.executescript(statements(release, keep.SQLITE))
        yield f"sqlite:///{tmp_path / 'site.db'}"
    else:
        with own_database() as url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statements(release, keep.POSTGRESQL).encode())
            yield url


@pytest.mark.parametrize("release", RELEASES)
def test_upgraded_site_answers_as_before(release: str, database: str, tmp_path: Path) -> None:
    site = Kept(release, tmp_path, database)
    migrated = python("manage.py", "migrate", "--verbosity", "0", environment=site.environment)
    # Its rows are of every table, those of retired features included: what goes is said.
    if release == "0.2.0":
        assert "rows of tools_registry.LabelledQuestion are dropped" in migrated.stderr
    check(site.told())
    # What an operator may do next; it is not needed for the answers above.
    check(site.told(f"rebuild_agent_index {AGENT}"))


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
    now = dict(keep.migration_hashes(PROJECT))
    kept = (keep.HERE / release / keep.HASHES).read_text().splitlines()
    frozen = {path: digest for digest, path in (line.split("  ") for line in kept)}
    assert frozen
    assert {path for path, digest in frozen.items() if now.get(path) != digest} == set()
