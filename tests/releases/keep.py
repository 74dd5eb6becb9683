"""Keep a small site of a release, for the suite to upgrade: `python -m tests.releases.keep [--project PATH --version
V]`.

Run once, when a release is made, in its own working copy; `--project` names the copy of an earlier one. Needs
PostgreSQL with `pg_dump`. Writes `tests/releases/VERSION/`, and never over a folder that is there. `--commit` is the
release's commit.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.resilience.site import own_database
from config.version import VERSION
from tests.releases.kept_site import SECRET_KEY
from tests.servers.commands import PROJECT, python

HERE = Path(__file__).resolve().parent
SQLITE, POSTGRESQL, HASHES = "sqlite.sql.gz", "postgresql.sql.gz", "migrations.sha256"
#: Names the release in the history, for whoever wants its code.
COMMIT = "commit"
_FILL = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("kept_site", sys.argv[1])
site = importlib.util.module_from_spec(spec)
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
spec.loader.exec_module(site)
site.fill(pathlib.Path(sys.argv[2]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, default=PROJECT)
    parser.add_argument("--version", default=VERSION)
    parser.add_argument("--commit", required=True)
    given = parser.parse_args()
    target = HERE / given.version
    target.mkdir()  # fails where the release is kept already
    with tempfile.TemporaryDirectory(prefix="repondant-release-") as name:
        folder = Path(name)
        fill(given.project, folder, f"sqlite:///{folder / 'site.db'}")
        with closing(sqlite3.connect(folder / "site.db")) as connection:
            write(target / SQLITE, "\n".join(connection.iterdump()))
        # Of the document's file the row has the path: both databases are of one folder.
        shutil.copytree(folder / "data" / "documents", target / "documents")
    with own_database() as url, tempfile.TemporaryDirectory(prefix="repondant-release-") as name:
        fill(given.project, Path(name), url)
        write(target / POSTGRESQL, postgresql_dump(url))
        shutil.copytree(Path(name) / "data" / "documents", target / "documents", dirs_exist_ok=True)
    (target / COMMIT).write_text(f"{given.commit}\n")
    lines = (f"{digest}  {path}\n" for path, digest in migration_hashes(given.project))
    (target / HASHES).write_text("".join(lines))


def fill(project: Path, folder: Path, database: str) -> None:
    """A site of that project's own code in an empty database."""
    environment = site_environment(folder, database)
    python("-c", _FILL, HERE / "kept_site.py", folder, environment=environment, project=project)


def site_environment(folder: Path, database: str) -> dict[str, str]:
    """No service and no model: what the site answers comes out of its database."""
    return {
        **os.environ,
        # Of the suite's own process: a site has to do without.
        "DJANGO_ALLOW_ASYNC_UNSAFE": "",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATA_DIR": str(folder / "data"),
        "DATABASE_URL": database,
        "SECRET_KEY": SECRET_KEY,
        **dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_KEY", "REDIS_URL", "QDRANT_URL"), ""),
        "EMBEDDER": "local",
        "EMBEDDING_MODEL": "",
        "CELERY_BROKER_URL": "filesystem://",
        "LOG_LEVEL": "ERROR",
    }


def postgresql_dump(url: str) -> str:
    """Statements alone: what `pg_dump` writes for `psql` (lines with a backslash) is left out."""
    command = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("\\"))


def write(path: Path, text: str) -> None:
    """Compressed, and the same bytes for the same text."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def migration_hashes(project: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(project.glob("*/migrations/[0-9]*.py")):
        yield path.relative_to(project).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
