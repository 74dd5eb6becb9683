"""PostgreSQL goes while answers are being written and comes back: every question has one outcome, and the site needs no
restart.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from websockets.exceptions import WebSocketException

from benchmarks.resilience.site import AGENT, Site, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.servers.postgres import PostgresServer, own_postgres
from tests.web_client import Page, Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}."
#: An answer lasts longer than a restart of the database, on any machine: 12 seconds.
TOKENS, INTERVAL_SECONDS = 60, 0.2
Frame = dict[str, Any]


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


def outcome(frame: Frame) -> str:
    """How it ended, or why not."""
    return str(frame.get("status") or frame.get("code"))


def told_to(page: Page, site: Site, visitor: Visitor, question: str, identifier: str) -> Frame:
    """The last frame; a socket that is closed or lost comes back with the same message under the same id, as the page's
    does.
    """
    for _connection in range(120):
        try:
            frame = page.until_end()[-1]
            if outcome(frame) != "storage_unavailable":
                return frame
        except (OSError, WebSocketException):
            pass
        time.sleep(0.5)
        with suppress(OSError, WebSocketException):
            page = visitor.socket(site.processes[0].url)
            page.ask(question, identifier)
    raise AssertionError("The site does not come back.")


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
        last = told_to(page, site, visitor, question, identifier)
        assert outcome(last) == "done"
        assert f"réponse.{TOKENS - 1}" in last["content"]
    for visitor in visitors:
        roles = [message["role"] for message in visitor.thread(process.url)["messages"]]
        assert roles == ["user", "assistant"]
    newcomer = Visitor(process.url, AGENT)
    page = newcomer.socket(process.url)
    page.ask(QUESTION.format(number=f"{mode} after"))
    assert outcome(page.until_end()[-1]) == "done"
    assert process.pid == pid
    assert "Traceback" not in site.logs()
