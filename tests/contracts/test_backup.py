"""A site of many tables, written to a file, restored elsewhere, and moved to another database: it answers as before."""

import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyrage
import pytest

from benchmarks.resilience.site import own_database
from tests.contracts.test_upgrade import Kept, check, statements
from tests.releases import keep
from tests.servers.commands import python

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

RELEASE = "0.2.0"
DOCUMENT = "cc946dc404514e4c984abffc4fc9b094.md"


@pytest.fixture
def postgresql() -> Iterator[str]:
    with own_database() as url:
        yield url


@pytest.fixture
def site(tmp_path: Path) -> Kept:
    """The kept site of a release, which has rows in nearly every table, brought up to date on SQLite."""
    with closing(sqlite3.connect(tmp_path / "site.db")) as restored:
        restored.executescript(statements(RELEASE, keep.SQLITE))
    kept = Kept(RELEASE, tmp_path, f"sqlite:///{tmp_path / 'site.db'}")
    run(kept, "migrate", "--verbosity", "0")
    return kept


class Elsewhere(Kept):
    """A machine without data."""

    def __init__(self, folder: Path, database: str) -> None:
        (folder / "data").mkdir(parents=True)
        self.environment = keep.site_environment(folder, database)


def run(site: Kept, *words: object) -> None:
    python("manage.py", *words, environment=site.environment)


def test_site_goes_through_a_file_to_postgresql_and_back(site: Kept, postgresql: str, tmp_path: Path) -> None:
    run(site, "backup", tmp_path / "one.zip")
    assert (tmp_path / "one.zip").stat().st_mode & 0o077 == 0
    grown = Elsewhere(tmp_path / "grown", postgresql)
    run(grown, "restore", tmp_path / "one.zip")
    check(grown.told())
    identity = pyrage.x25519.Identity.generate()
    (key := tmp_path / "key.txt").write_text(f"# made by age-keygen\n{identity}\n")
    run(grown, "backup", tmp_path / "two.age", "--recipient", identity.to_public())
    assert (tmp_path / "two.age").stat().st_mode & 0o077 == 0
    small = Elsewhere(tmp_path / "small", f"sqlite:///{tmp_path / 'small.db'}")
    for other, problem in (((), "is encrypted"), (("--identity", tmp_path / "one.zip"), "cannot be decrypted")):
        with pytest.raises(RuntimeError, match=problem):
            run(small, "restore", tmp_path / "two.age", *other)
    run(small, "restore", tmp_path / "two.age", "--identity", key)
    check(small.told())
    # One of the release's two files belongs to a deleted document: a site's files are those that its rows name.
    assert [path.name for path in (tmp_path / "small" / "data" / "documents").rglob("*.*")] == [DOCUMENT]


def test_moved_site_answers_as_before(site: Kept, postgresql: str, tmp_path: Path) -> None:
    moved = Elsewhere(tmp_path / "moved", postgresql)
    shutil.copytree(tmp_path / "data" / "documents", tmp_path / "moved" / "data" / "documents")
    run(site, "move_database", postgresql)
    check(moved.told())
    run(moved, "create_agent", "new")
    # A second try finds a site there.
    with pytest.raises(RuntimeError, match="has a site already"):
        run(moved, "restore", _emptied(tmp_path / "any.zip", site))


def test_what_is_no_back_up_of_this_version_is_refused(site: Kept, tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path / "other", f"sqlite:///{tmp_path / 'other.db'}")
    (tmp_path / "page.zip").write_text("<html>")
    with pytest.raises(RuntimeError, match="is not a file of manage.py backup"):
        run(elsewhere, "restore", tmp_path / "page.zip")
    older = _emptied(tmp_path / "older.zip", site, "DELETE FROM django_migrations WHERE app = 'chat'")
    with pytest.raises(RuntimeError, match="different versions"):
        run(elsewhere, "restore", older)
    run(site, "backup", tmp_path / "good.zip")
    stored = tmp_path / "other" / "data" / "documents" / DOCUMENT[:2] / DOCUMENT
    stored.parent.mkdir(parents=True)
    stored.write_text("Another site's.")
    with pytest.raises(RuntimeError, match="another document is stored"):
        run(elsewhere, "restore", tmp_path / "good.zip")
    assert stored.read_text() == "Another site's."
    stored.unlink()
    run(elsewhere, "restore", tmp_path / "good.zip")
    check(elsewhere.told())


def _emptied(file: Path, site: Kept, *changes: str) -> Path:
    """Write a file as `backup` does, with these changes to its rows."""
    rows = file.with_suffix(".sqlite3")
    shutil.copy(site.environment["DATABASE_URL"].removeprefix("sqlite:///"), rows)
    with closing(sqlite3.connect(rows)) as connection, connection:
        for change in changes:
            connection.execute(change)
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(rows, "database.sqlite3")
    return file
