"""A web process that is told to stop answers what was sent to it: nobody who was connected is refused or cut off."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.web_client import Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 90.0
QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}."
CLOSED_FOR_A_RESTART = 1012
UPGRADE = (
    b"GET /ws/chat/00000000-0000-4000-8000-000000000000/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    reply = ModelReply(tokens=numbered("réponse", 10), interval=0.01)
    with (
        ModelServer(fallback=lambda _body: reply) as model,
        # Longer than a busy machine needs for these answers.
        Site(model, RATE_LIMITS="False", TURN_DRAIN_SECONDS="60") as served,
    ):
        yield served


def question(number: int, *, connection: str = "close") -> bytes:
    body = json.dumps({"message": QUESTION.format(number=number), "deployment": AGENT}).encode()
    head = f"POST /api/rag/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: {connection}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answer(connection: socket.socket) -> str:
    """Status line and outcome, once the server has closed."""
    told = b""
    while piece := connection.recv(65_536):
        told += piece
    text = told.decode()
    assert text, "closed without an answer"
    return f"{text.split(maxsplit=2)[1]} {'done' if 'event: done' in text else text[-300:]}"


def connected(process: WebProcess, stack: ExitStack, count: int) -> list[socket.socket]:
    return [
        stack.enter_context(socket.create_connection(("127.0.0.1", process.port), PATIENCE_SECONDS))
        for _ in range(count)
    ]


def wait_until_refused(process: WebProcess) -> None:
    limit = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", process.port), 5).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # It came between the last that was taken and the end of listening.
        assert time.monotonic() < limit, "It goes on listening."


@dataclass(frozen=True, slots=True)
class Told:
    """What became of those who were connected when the process was told to stop."""

    open: list[str]
    kept_alive: str
    socket: int | None
    status: int


@pytest.fixture(scope="module", params=["1", "2"], ids=["one-process", "two-processes"])
def told(request: pytest.FixtureRequest, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    environment = {**site.environment, "WEB_PROCESSES": request.param}
    process = WebProcess(environment, tmp_path_factory.mktemp("stopping") / "serve.log")
    with ExitStack() as stack:
        stack.callback(process.kill)
        process.start()
        # Whichever of its processes the kernel chooses.
        assert all(process.is_up() for _ in range(20))
        connections = connected(process, stack, 8)
        [kept] = connected(process, stack, 1)
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        said = b""
        while b"}" not in said:
            said += (piece := kept.recv(65_536))
            assert piece, said
        page = Visitor(process.url, AGENT).socket(process.url)
        process.send_signal(signal.SIGTERM)
        wait_until_refused(process)
        page.ask(QUESTION.format(number="page"))
        kept.sendall(question(0, connection="keep-alive"))
        for number, connection in enumerate(connections, start=1):
            connection.sendall(question(number))
        answers = [answer(connection) for connection in connections]
        yield Told(answers, answer(kept), page.close_code(), process.stop(seconds=90))


def test_question_on_a_connection_that_was_open_is_answered(told: Told) -> None:
    assert told.open == ["200 done"] * 8


def test_connection_that_is_kept_alive_takes_one_more_question_and_ends(told: Told) -> None:
    assert told.kept_alive == "200 done"


def test_socket_that_asks_is_closed_for_a_restart(told: Told) -> None:
    assert told.socket == CLOSED_FOR_A_RESTART


def test_process_then_ends_in_order(told: Told) -> None:
    assert told.status == 0


def test_connection_that_nobody_had_taken_yet_is_answered_and_a_silent_one_holds_nothing_up(site: Site) -> None:
    [process] = site.processes
    with ExitStack() as stack:
        # It sees the connections and the signal at one moment.
        process.send_signal(signal.SIGSTOP)
        connections = connected(process, stack, 8)
        connected(process, stack, 3)
        [page] = connected(process, stack, 1)
        page.sendall(UPGRADE)
        for number, connection in enumerate(connections):
            connection.sendall(question(number))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert [answer(connection) for connection in connections] == ["200 done"] * 8
        # Nobody asks over it, so what it is closed with is the site's to say: but it is no bad request.
        assert b" 400 " not in page.recv(65_536)
        # Less than the time that it gives to its answers, of which there is none left.
        assert process.stop(seconds=45) == 0
