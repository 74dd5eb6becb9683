"""A vector store behind a network that is slow, silent and cut, asked by a served site through the real client.

The store is a stand-in that speaks Qdrant's calls (`tests.servers.qdrant_server`); the line to it is cut and mended.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import httpx2
import pytest

from benchmarks.resilience.site import AGENT, Site, numbered
from tests.servers.cutting import Line, line_to
from tests.servers.model_server import ModelReply, ModelServer
from tests.servers.qdrant_server import QdrantServer
from tests.web_client import Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}."
#: What the client gives a call, in whole seconds; a silence is far longer.
TIMEOUT, SILENCE = 3, 60.0
DOCUMENTS = 4


class Desk(NamedTuple):
    site: Site
    store: QdrantServer
    line: Line

    def ask(self, number: int | str) -> str:
        [process] = self.site.processes
        visitor = Visitor(process.url, AGENT)
        page = visitor.socket(process.url)
        page.ask(QUESTION.format(number=number), str(uuid.uuid4()))
        last = page.until_end()[-1]
        page.close()
        return str(last.get("status") or last.get("code"))

    def ready(self) -> tuple[int, str]:
        found = httpx2.get(f"{self.site.processes[0].url}/readyz", timeout=60, trust_env=False)
        return found.status_code, found.json()["parts"]["vector_store"]["status"]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    reply = ModelReply(tokens=numbered("réponse", 5))
    with ExitStack() as stack:
        store = stack.enter_context(QdrantServer())
        line = stack.enter_context(line_to(store.port))
        model = stack.enter_context(ModelServer(fallback=lambda _body: reply))
        site = Site(
            model,
            constants={"READY_CACHE_SECONDS": 0.0, "QDRANT_TIMEOUT_SECONDS": TIMEOUT},
            QDRANT_URL=f"http://127.0.0.1:{line.port}",
            RATE_LIMITS="False",
        )
        yield Desk(stack.enter_context(site), store, line)


def test_silent_store_fails_the_question_by_name_and_answers_the_next(desk: Desk) -> None:
    desk.store.delay = SILENCE
    assert desk.ask("silent") == "vector_store_unavailable"
    assert desk.ready() == (503, "unavailable")
    desk.store.delay = 0.0
    assert desk.ask("after silence") == "done"
    assert desk.ready() == (200, "ok")


def test_store_that_goes_and_comes_back_needs_no_restart_of_the_site(desk: Desk) -> None:
    pid = desk.site.processes[0].pid
    assert desk.ask("before") == "done"
    desk.line.cut()
    assert desk.ask("gone") == "vector_store_unavailable"
    assert desk.ready() == (503, "unavailable")
    desk.line.mend()
    assert desk.ask("back") == "done"
    assert desk.ready() == (200, "ok")
    assert desk.site.processes[0].pid == pid
    assert "Traceback" not in desk.site.logs()


def test_store_that_goes_while_documents_are_indexed_fails_them_by_name(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("documents")
    for number in range(DOCUMENTS):
        text = f"# Fiche {number}\n\n## Combien coûte la fiche {number} ?\n\nElle coûte {number} euros.\n"
        (folder / f"{number}.md").write_text(text)
    desk.store.gone_after, desk.store.on_gone = 0, desk.line.cut
    with pytest.raises(RuntimeError, match="La base vectorielle est indisponible"):
        desk.site.manage("add_documents", AGENT, str(folder), OPENAI_BASE_URL="")
    states = "SELECT status, error <> '' FROM knowledge_document WHERE name LIKE '_.md'"
    assert set(desk.site.query(states)) == {("failed", 1)}
    desk.store.gone_after = None
    desk.line.mend()
    desk.site.manage("add_documents", AGENT, str(folder), OPENAI_BASE_URL="")
    assert desk.site.query(states) == [("indexed", 0)] * DOCUMENTS
    assert desk.ask("afterwards") == "done"
