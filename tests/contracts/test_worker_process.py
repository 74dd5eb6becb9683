"""A prefork worker on real servers: it starts and forks without false alarms, says that it lives, and is missed once it
is killed.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.resilience.site import MissingServerError, own_database
from tests.servers.of_the_run import migrated_postgres, migrated_sqlite
from tests.servers.redis_server import PROGRAM, RedisServer
from tests.servers.worker import WorkerProcess
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

_STATE = """
import json
from agents.models import Job
rows = {row.kind: (row.finished_at and row.finished_at.timestamp()) for row in Job.objects.exclude(kind="worker")}
beats = list(Job.objects.filter(kind="worker").values_list("key", flat=True))
last = max((w.lease_expires_at.timestamp() for w in Job.objects.filter(kind="worker")), default=0)
print(json.dumps({"jobs": rows, "workers": beats, "last": last}))
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    """On PostgreSQL where there is one: there a shared connection is what breaks."""
    if PROGRAM is None:
        pytest.skip("redis-server is not installed")
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        environment = {"CELERY_BROKER_URL": redis.url, "REDIS_URL": redis.url}
        try:
            environment["DATABASE_URL"] = stack.enter_context(own_database(migrated_postgres))
        except MissingServerError:
            environment["DATABASE_URL"] = f"sqlite:///{tmp_path / 'site.db'}"
            migrated_sqlite(tmp_path / "site.db")
        yield stack.enter_context(WorkerProcess(tmp_path, environment))


def run(worker: WorkerProcess, code: str) -> str:
    return worker.manage("shell", "-v", "0", "-c", code)


def state(worker: WorkerProcess) -> dict[str, object]:
    found: dict[str, object] = json.loads(run(worker, _STATE))
    return found


#: Billiard may call a job lost that its killed process had ended.
LOST = re.compile(r"^[^\n]*raised error: WorkerLostError\(.*?^billiard\.exceptions\.WorkerLostError", re.M | re.S)


def test_a_prefork_worker_lives_without_false_alarms(worker: WorkerProcess) -> None:
    wait_until(lambda: "retention done" in worker.output(), 120)
    wait_until(lambda: len(worker.children()) == 2)
    # A process that is forked later, while the worker itself has looked into the database many times.
    first = worker.children()[0]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: first not in worker.children() and len(worker.children()) == 2)
    before = state(worker)
    wait_until(lambda: state(worker)["last"] != before["last"])
    assert set(before["jobs"]) >= {"recover", "retention", "reconcile"}  # type: ignore[call-overload]
    alarms = [
        line
        for line in LOST.sub("", worker.output()).splitlines()
        if any(word in line for word in ("Traceback", "closed connection", "reach the database"))
    ]
    assert alarms == [], worker.output()


def test_a_killed_worker_is_missed(worker: WorkerProcess) -> None:
    wait_until(lambda: " ready." in worker.output(), 120)
    wait_until(lambda: state(worker)["workers"])
    worker.kill()
    silent = "from agents.jobs import worker_state as w; print(w().state)"
    wait_until(lambda: run(worker, silent).strip() == "silent", 120)


# The worker of `serve` without a broker

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


def test_worker_of_serve_leaves_once_all_jobs_are_done_and_not_for_small_ones(tmp_path: Path) -> None:
    migrated_sqlite(tmp_path / "repondant.db")
    environment = {"REPONDANT_PARENT_PID": str(os.getpid()), "CELERY_BROKER_URL": ""}
    worker = WorkerProcess(tmp_path, environment, processes=2, pool="threads")
    run(worker, _UPLOADS)
    with worker:
        wait_until(worker.has_ended, 120)
    assert json.loads(run(worker, _STATES)) == ["done"] * 3, worker.output()
    with worker:
        said = len(worker.output())
        run(worker, "from agents.jobs import enqueue; enqueue('reconcile', key='1')")
        wait_until(lambda: worker.has_ended() or "run_job" in worker.output()[said:], 120)
        assert not worker.has_ended(), worker.output()
