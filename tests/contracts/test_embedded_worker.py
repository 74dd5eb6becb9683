"""The worker of `serve` without a broker: it does all that waits in one life, and small jobs do not end it."""

import json
import os
from pathlib import Path

import pytest

from tests.servers.of_the_run import migrated_sqlite
from tests.servers.worker import WorkerProcess
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(300)]

_UPLOADS = """
from agents.models import Agent
from knowledge.indexing.jobs import enqueue_documents
from knowledge.indexing.path import store_document
agent = Agent.objects.create(slug="a", name="a")
for number in range(3):
    stored = store_document(agent=agent, name=f"{number}.md", data=b"# Prix\\n\\nLa carte vaut %d euros." % number)
    enqueue_documents(agent=agent, document_ids=[stored.document.pk])
"""
_STATES = """
import json
from knowledge.models import IndexBuild
print(json.dumps(list(IndexBuild.objects.filter(kind="documents").values_list("status", flat=True))))
"""


@pytest.fixture
def worker(tmp_path: Path) -> WorkerProcess:
    migrated_sqlite(tmp_path / "repondant.db")
    environment = {"REPONDANT_PARENT_PID": str(os.getpid()), "CELERY_BROKER_URL": ""}
    return WorkerProcess(tmp_path, environment, processes=1, pool="solo")


def run(worker: WorkerProcess, code: str) -> str:
    return worker.manage("shell", "-v", "0", "-c", code)


def test_worker_leaves_once_all_jobs_are_done_and_not_for_small_ones(worker: WorkerProcess) -> None:
    run(worker, _UPLOADS)
    with worker:
        wait_until(worker.has_ended, 120)
    assert json.loads(run(worker, _STATES)) == ["done"] * 3, worker.output()
    with worker:
        said = len(worker.output())
        run(worker, "from agents.jobs import enqueue; enqueue('reconcile', key='1')")
        wait_until(lambda: worker.has_ended() or "run_job" in worker.output()[said:], 120)
        assert not worker.has_ended(), worker.output()
