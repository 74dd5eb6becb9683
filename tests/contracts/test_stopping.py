"""A web process that is told to stop lets the answers end that it has begun, and closes the sockets of its pages."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import httpx2
import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.web_client import Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}."
CLOSED_FOR_A_RESTART = 1012


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reply = ModelReply(tokens=numbered("réponse", 10), interval=0.2)
    with (
        ModelServer(fallback=lambda _body: reply) as model,
        # Longer than a busy machine needs for these answers.
        Site(model, constants={"TURN_DRAIN_SECONDS": 60.0}, RATE_LIMITS="False") as served,
    ):
        yield served


@dataclass(frozen=True, slots=True)
class Told:
    """What became of those who were connected when the process was told to stop."""

    streams: list[str]
    socket: int | None
    status: int
    thread: str


@pytest.fixture(scope="module", params=["1", "2"], ids=["one-process", "two-processes"])
def told(request: pytest.FixtureRequest, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    environment = {**site.environment, "WEB_PROCESSES": request.param}
    process = WebProcess(environment, tmp_path_factory.mktemp("stopping") / "serve.log")
    with ExitStack() as stack:
        stack.callback(process.kill)
        process.start()
        visitor = Visitor(process.url, AGENT)
        page = visitor.socket(process.url)
        page.ask(QUESTION.format(number="page"))
        page.until("delta")
        pool = stack.enter_context(ThreadPoolExecutor(4))
        opened = [stack.enter_context(stream(process, number)) for number in range(4)]
        reading = [pool.submit(response.read) for response in opened]
        process.send_signal(signal.SIGTERM)
        streams = ["done" if b"event: done" in told.result() else "cut" for told in reading]
        code, status = page.close_code(), process.stop(seconds=90)
        yield Told(streams, code, status, str(visitor.thread(site.processes[0].url)))


def stream(process: WebProcess, number: int) -> AbstractContextManager[httpx2.Response]:
    """Each by a visitor of its own: without the cookie of the one before."""
    asked = {"message": QUESTION.format(number=number), "deployment": AGENT}
    return httpx2.stream("POST", f"{process.url}/api/rag/chat", json=asked, timeout=90, trust_env=False)


def test_streams_that_had_begun_end_with_their_answer(told: Told) -> None:
    assert told.streams == ["done"] * 4


def test_page_is_sent_elsewhere_and_finds_its_answer_whole(told: Told) -> None:
    assert told.socket == CLOSED_FOR_A_RESTART
    assert numbered("réponse", 10)[-1].strip() in told.thread


def test_process_then_ends_in_order(told: Told) -> None:
    assert told.status == 0
