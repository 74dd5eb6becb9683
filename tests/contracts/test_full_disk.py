"""A disk that is full in earnest under a served site and its worker: nothing is lost, staff read why, and it goes on
with space.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from benchmarks.resilience.site import WebProcess
from tests.contracts.test_several_machines import AGENT, PASSWORD, PREPARE, USER, answer, upload
from tests.releases import keep
from tests.servers.commands import python
from tests.servers.of_the_run import migrated_sqlite
from tests.servers.small_disk import SmallDisk, small_disk
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

CONSTANTS = {
    "JOB_RETRY_SECONDS": 1.0,
    "JOB_REAP_SECONDS": 0.5,
    "JOB_LEASE_SECONDS": 6.0,
    "JOB_HEARTBEAT_SECONDS": 1.0,
    "READY_CACHE_SECONDS": 0.1,
    "WEB_DATABASE_WAIT_SECONDS": 2.0,
}
#: Rows and vectors of it take several times its own size.
DOCUMENT = "# Mairie\n\n## Combien coûte une place de marché ?\n\nQuatre euros le mètre.\n\n" + "".join(
    f"## Où est le bureau {number} ?\n\nAu couloir {number * 7 % 1000}. {'Le plan est affiché. ' * 20}\n\n"
    for number in range(400)
)


class Full(NamedTuple):
    disk: SmallDisk
    web: WebProcess
    database: Path

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            return connection.execute(statement).fetchall()

    def job(self) -> tuple[str, int, str]:
        ((status, attempts, error),) = self.rows(
            "SELECT status, attempts, error FROM agents_job WHERE kind = 'documents'"
        )
        return status, attempts, error

    def ready(self) -> tuple[int, dict[str, str]]:
        found = httpx2.get(f"{self.web.url}/readyz", timeout=30, trust_env=False)
        return found.status_code, {name: part["status"] for name, part in found.json()["parts"].items()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Full]:
    """All that it keeps is on the disk: database, documents, messages and figures."""
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", size=200_000_000))
        if disk is None:
            pytest.skip("nothing can be mounted here")
        database = disk.folder / "site.db"
        environment = {
            **keep.site_environment(disk.folder, f"sqlite:///{database}"),
            "DJANGO_SETTINGS_MODULE": "benchmarks.resilience.site_settings",
            "SITE_CONSTANTS": json.dumps(CONSTANTS),
            "CELERY_BROKER_URL": "filesystem://",
            "LOG_LEVEL": "WARNING",
        }
        migrated_sqlite(database)
        python("-c", PREPARE, AGENT, USER, PASSWORD, environment=environment)
        web = WebProcess(environment, tmp_path / "web.log", with_worker=True)
        stack.callback(lambda: web.stop(seconds=60))
        web.start()
        site = Full(disk, web, database)
        wait_until(lambda: site.ready()[1]["worker"] == "ok")
        yield site


def test_nothing_is_lost_on_a_full_disk_and_the_job_runs_when_there_is_space(site: Full) -> None:
    site.disk.fill(leave=len(DOCUMENT) + 900_000)
    assert "en cours de lecture" in upload(site.web.url, "mairie.md", DOCUMENT)
    wait_until(lambda: site.job()[1] == 1 and site.job()[0] == "queued")
    assert "Le disque est plein" in site.job()[2]
    ((reason,),) = site.rows("SELECT error FROM knowledge_document")
    assert "Le disque est plein" in reason
    # What the first attempt left goes, too; the worker, its messages and the database meet a disk without a byte.
    site.disk.fill()
    wait_until(lambda: site.ready() == (503, site.ready()[1] | {"database": "unavailable"}))
    site.disk.empty()
    wait_until(lambda: site.job()[0] == "done", 240)
    assert site.rows("SELECT status, error FROM knowledge_document") == [("indexed", "")]
    assert "Quatre euros" in answer(site.web.url, "Combien coûte une place de marché ?")
    wait_until(lambda: site.ready()[0] == 200)
