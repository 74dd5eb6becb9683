"""A really served site whose database is locked, full or gone: every door says so by one name, and goes on afterwards."""

import json
import resource
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess
from tests.servers.model_server import ModelServer
from tests.waiting import in_threads, wait_until
from tests.web_client import Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

CODE = "storage_unavailable"
QUESTION = "Où se réservent les salles de travail ?"
ORIGIN = "https://www.example.org"
#: Far above what a refusal takes here, far below the patience of anybody.
PATIENCE_SECONDS = 60.0
CONSTANTS = {
    "WEB_DATABASE_WAIT_SECONDS": 0.5,
    "DATABASE_PAUSE_SECONDS": 0.2,
    "READY_CACHE_SECONDS": 0.1,
    "TURN_LEASE_SECONDS": 6.0,
}
PREPARE = f"""
import json
from django.contrib.auth.models import User
from agents.models import Deployment
from chat.access.permissions import new_widget_visitor
from chat.models import ApiKey
User.objects.create_superuser("martine", "m@example.org", "only-for-tests")
deployment = Deployment.objects.get(slug="{AGENT}")
deployment.allowed_origins = "{ORIGIN}"
deployment.save()
key = ApiKey(name="client")
secret = key.draw_secret()
key.save()
key.deployments.add(deployment)
print(json.dumps([secret, new_widget_visitor(deployment.public_key, "{ORIGIN}").token()]))
"""


@dataclass(frozen=True, slots=True)
class Doors:
    """One site, whoever may come through its doors, and what becomes of its database."""

    site: Site
    process: WebProcess
    api_key: str
    visitor: str
    trouble_is: Callable[[Site, WebProcess], AbstractContextManager[None]]

    def trouble(self) -> AbstractContextManager[None]:
        return self.trouble_is(self.site, self.process)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        """On a connection of its own."""
        return httpx2.request(method, f"{self.process.url}{path}", json=body, timeout=90, trust_env=False, **options)

    def ready(self) -> dict[str, Any]:
        found = self.call("GET", "/readyz")
        return {"http": found.status_code, **found.json()}


@contextmanager
def locked(site: Any, process: object = None) -> Iterator[None]:
    """Another process holds the writer's lock of this site."""
    path = site.environment["DATABASE_URL"].removeprefix("sqlite:///")
    other = sqlite3.connect(path, isolation_level=None, timeout=30)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def full(site: Site, process: WebProcess) -> Iterator[None]:
    """No file of the web process may become longer than the database's journal, which a reader keeps from starting
    anew.
    """
    path = Path(site.environment["DATABASE_URL"].removeprefix("sqlite:///"))
    other = sqlite3.connect(path, isolation_level=None, timeout=30)
    other.execute("PRAGMA wal_autocheckpoint = 0")
    # A journal that started anew within a longer file would have room left.
    wait_until(lambda: not other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    other.execute("CREATE TABLE IF NOT EXISTS filler (filling)")
    # Longer than the log of the process, which is to go on.
    other.execute("INSERT INTO filler VALUES (zeroblob(1000000))")
    other.execute("BEGIN")
    other.execute("SELECT COUNT(*) FROM filler").fetchall()
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    most = path.with_name(f"{path.name}-wal").stat().st_size
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        other.close()


@contextmanager
def gone(site: Site, process: WebProcess) -> Iterator[None]:
    """The server ends all connections and takes no other."""
    url = site.environment["DATABASE_URL"]
    server, _slash, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.fixture(scope="module", params=[False, True], ids=["sqlite", "shared"])
def site(request: pytest.FixtureRequest) -> Iterator[tuple[Site, list[str]]]:
    with ModelServer() as model, Site(model, shared=request.param, constants=CONSTANTS) as made:
        yield made, json.loads(made.manage("shell", "-v", "0", "-c", PREPARE))


@pytest.fixture(params=[locked, full, gone])
def doors(request: pytest.FixtureRequest, site: tuple[Site, list[str]]) -> Doors:
    made, (api_key, visitor) = site
    if (request.param is gone) == made.environment["DATABASE_URL"].startswith("sqlite"):
        pytest.skip("another database's trouble")
    found = Doors(made, made.processes[0], api_key, visitor, request.param)
    wait_until(lambda: found.call("POST", "/api/conversations/", {"deployment": AGENT}).status_code != 503)
    return found


def requests_of(doors: Doors) -> list[tuple[str, str, Any, dict[str, str]]]:
    """A write at every door, as method, path, body and headers."""
    asked = {"message": QUESTION, "deployment": AGENT, "clientMessageId": str(uuid.uuid4())}
    origin = {"Origin": f"http://127.0.0.1:{doors.process.port}"}
    bearer, visiting = f"Bearer {doors.api_key}", f"Visitor {doors.visitor}"
    thread = {"model": AGENT, "messages": [{"role": "user", "content": QUESTION}]}
    return [
        ("POST", "/api/conversations/", {"deployment": AGENT}, {}),
        ("POST", "/api/rag/chat", asked, {}),
        ("POST", "/widget/ask", asked, {"Authorization": visiting, **origin}),
        ("POST", "/v1/chat/completions", thread, {"Authorization": bearer}),
        ("POST", "/v1/chat/completions", {**thread, "stream": True}, {"Authorization": bearer}),
    ]


def test_every_door_says_it_by_its_name(doors: Doors) -> None:
    sent = requests_of(doors)
    logged = len(doors.site.logs())
    with doors.trouble():
        for method, path, body, headers in sent:
            start = time.monotonic()
            answer = doors.call(method, path, body, headers=headers)
            assert time.monotonic() - start < PATIENCE_SECONDS
            assert answer.status_code == 503, (path, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
            told = answer.json()
            assert told.get("error", told)["code"] == CODE
            assert ("error" in told) == path.startswith("/v1/")
    log = doors.site.logs()[logged:]
    assert "Traceback" not in log, log
    assert log.count("storage unavailable status=503") == len(sent), log


def test_whoever_asks_with_others_waits_no_longer_than_alone(doors: Doors) -> None:
    if doors.trouble_is is not locked:
        pytest.skip("nothing to wait for")

    def send(method: str, path: str, body: Any, headers: dict[str, str]) -> float:
        start = time.monotonic()
        assert doors.call(method, path, body, headers=headers).status_code == 503
        return time.monotonic() - start

    sent = requests_of(doors) * 5
    with doors.trouble():
        waits = in_threads(*(partial(send, *request) for request in sent))
    # One after the other, the last would have waited for all.
    assert max(waits) < len(sent) * CONSTANTS["WEB_DATABASE_WAIT_SECONDS"] / 2, sorted(waits)


def test_pages_for_people_can_be_read(doors: Doors) -> None:
    cookies = doors.call("GET", "/login/").cookies
    form = {"login": "martine", "password": "only-for-tests", "csrfmiddlewaretoken": cookies["csrftoken"]}
    html = {"Accept": "text/html", "Accept-Language": "fr"}
    with doors.trouble():
        page = doors.call("GET", "/", headers=html)
        sign_in = doors.call("POST", "/login/", data=form, headers=html, cookies=cookies)
    for answer in (page, sign_in):
        assert answer.status_code == 503
        assert answer.headers["content-type"].startswith("text/html")
        assert "La base de données est occupée" in answer.text
    assert "http-equiv" in page.text
    # What was typed is not sent again unasked.
    assert "http-equiv" not in sign_in.text


def test_the_same_question_is_answered_once_it_is_over(doors: Doors) -> None:
    visitor = Visitor(doors.process.url, AGENT)
    socket = visitor.socket(doors.process.url)
    socket.ask(QUESTION, "warm")
    assert socket.until_end()[-1]["type"] == "done"
    with doors.trouble():
        socket.ask(QUESTION, "one")
        if (frames := socket.until_end())[-1]["type"] == "error":
            assert frames[-1]["code"] == CODE
            assert frames[-1]["retryable"]
            assert frames[-1]["retryAfter"] > 0
    assert visitor.end_of(doors.process.url, QUESTION, "one")["type"] == "done"
    asked = [m["content"] for m in visitor.thread(doors.process.url)["messages"]]
    assert asked.count(QUESTION) == 2


def test_readiness_tells_and_liveness_stays(doors: Doors) -> None:
    assert doors.ready()["http"] == 200
    with doors.trouble():
        wait_until(lambda: doors.ready()["http"] == 503)
        told = doors.ready()
        assert doors.call("GET", "/healthz").status_code == 200
    assert told["status"] == "unavailable"
    assert told["parts"]["database"]["status"] == "unavailable"
    wait_until(lambda: doors.ready()["http"] == 200)
