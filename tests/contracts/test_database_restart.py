"""PostgreSQL goes while answers are being written and comes back: every question has one outcome, and the site needs no
restart.
"""

import uuid
from collections.abc import Iterator

import httpx2
import psycopg
import pytest

from agents import database
from benchmarks.resilience.site import AGENT, Site, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.servers.postgres import PostgresServer, own_postgres
from tests.waiting import wait_until
from tests.web_client import Page, Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}."
#: An answer lasts longer than a restart of the database, on any machine: 12 seconds.
TOKENS, INTERVAL_SECONDS = 60, 0.2


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_postgres(keeps=True) as started:
        if started is None:
            pytest.skip("no PostgreSQL (apt-get install postgresql)")
        yield started


@pytest.fixture(scope="module")
def site(server: PostgresServer) -> Iterator[Site]:
    reply = ModelReply(tokens=numbered("réponse", TOKENS), interval=INTERVAL_SECONDS)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE desk")
    url = f"{server.url.rsplit('/', 1)[0]}/desk"
    with (
        ModelServer(fallback=lambda _body: reply) as model,
        Site(model, DATABASE_URL=url, RATE_LIMITS="False") as served,
    ):
        yield served


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restart_in_mid_turn_ends_each_question_once_and_the_site_goes_on(
    server: PostgresServer, site: Site, mode: str
) -> None:
    [process] = site.processes
    pid = process.pid
    visitors = [Visitor(process.url, AGENT) for _ in range(3)]
    questions = [(QUESTION.format(number=f"{mode} {n}"), str(uuid.uuid4())) for n in range(3)]
    pages: list[Page] = []
    for visitor, (question, identifier) in zip(visitors, questions, strict=True):
        page = visitor.socket(process.url)
        page.ask(question, identifier)
        page.until("delta")
        pages.append(page)
    server.stop(mode)
    server.start()
    for page, visitor, (question, identifier) in zip(pages, visitors, questions, strict=True):
        last = visitor.end_of(process.url, question, identifier, page)
        assert last.get("status") == "done"
        assert f"réponse.{TOKENS - 1}" in last["content"]
    for visitor in visitors:
        roles = [message["role"] for message in visitor.thread(process.url)["messages"]]
        assert roles == ["user", "assistant"]
    newcomer = Visitor(process.url, AGENT)
    page = newcomer.socket(process.url)
    page.ask(QUESTION.format(number=f"{mode} after"))
    assert page.until_end()[-1].get("status") == "done"
    assert process.pid == pid
    assert "Traceback" not in site.logs()


def test_frozen_server_is_refused_by_name_and_the_site_goes_on(server: PostgresServer, site: Site) -> None:
    [process] = site.processes
    visitor = Visitor(process.url, AGENT)
    with server.frozen():
        for path in ("/", "/api/conversations/", f"/api/conversations/{visitor.conversation_id}/messages/"):
            with pytest.raises(httpx2.HTTPStatusError) as refused:
                visitor.call(f"{process.url}{path}")
            assert refused.value.response.json()["code"] == "storage_unavailable"
    assert visitor.thread(process.url)["messages"] == []


def test_statement_that_is_given_up_ends_in_the_server_too(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WEB_STATEMENT_SECONDS", 2.0)
    with pytest.raises(psycopg.OperationalError, match="does not answer"):
        database._impatient_connection().connect(server.url).execute("SELECT pg_sleep(300)")
    running = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(300)'"
    with psycopg.connect(server.url, autocommit=True) as watching:
        wait_until(lambda: watching.execute(running).fetchall() == [])
