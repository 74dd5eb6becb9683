"""A really served site against raw sockets: what is too long is refused before it is read, what is too slow is closed."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.resilience.site import Site, WebProcess
from tests.servers.model_server import ModelServer

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

GIGABYTE = 1024**3
SECONDS = 1.0
#: What a busy machine may add to a time of the site.
PATIENCE_SECONDS = 15.0
CONNECTIONS = 450
#: Of `SIGN_IN`, once the site is there.
sessions: list[str] = []


#: Prints the key of a session of somebody of the staff, and of somebody who is not.
SIGN_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import get_user_model
for is_staff in (True, False):
    user = get_user_model().objects.create_user(f"user-{is_staff}", is_staff=is_staff)
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session["_auth_user_backend"] = settings.AUTHENTICATION_BACKENDS[0]
    session["_auth_user_hash"] = user.get_session_auth_hash()
    session.save()
    print(session.session_key)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[WebProcess]:
    bounds = {"REQUEST_HEADERS_SECONDS": SECONDS, "REQUEST_BODY_SECONDS": SECONDS}
    with (
        ModelServer() as model,
        Site(model, constants=bounds, WEB_CONNECTIONS=str(CONNECTIONS)) as served,
    ):
        (process,) = served.processes
        sessions.extend(served.manage("shell", "-v", "0", "-c", SIGN_IN).split())
        yield process


def connected(site: WebProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS)


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes the connection; empty where it closed without a word."""
    said = b""
    try:
        while piece := connection.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def sent_until_refused(connection: socket.socket, size: int, *, chunked: bool) -> int:
    """How much of a body the connection takes."""
    piece, sent = b"x" * 65536, 0
    framed = f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if chunked else piece
    try:
        while sent < size:
            connection.sendall(framed)
            sent += len(piece)
    except (ConnectionError, TimeoutError):
        pass
    return sent


def spooled(site: WebProcess) -> list[str]:
    """Files without a name that the process has open: what Django spools lies there."""
    return [file.path for file in psutil.Process(site.pid).open_files() if "deleted" in file.path]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/login/", "/api/rag/chat", "/v1/x"])
def test_body_that_says_it_is_too_long_is_refused_before_it_is_sent(
    site: WebProcess, path: str
) -> None:
    with connected(site) as connection:
        connection.sendall(head("POST", path, f"Content-Length: {GIGABYTE}"))
        said = answer(connection)
    assert said.startswith(b"HTTP/1.1 413 ")
    told = json.loads(said.partition(b"\r\n\r\n")[2])
    assert told.get("error", told)["code"] == "message_too_large"
    for name in (b"referrer-policy", b"cross-origin-opener-policy", b"x-frame-options"):
        assert said.lower().count(b"\r\n" + name + b": ") == 1, name


@pytest.mark.parametrize("path", ["/healthz", "/admin/knowledge/document/add-documents/", "/v1/x"])
@pytest.mark.parametrize("chunked", [False, True])
def test_no_gigabyte_is_taken_nor_kept(site: WebProcess, path: str, chunked: bool) -> None:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {GIGABYTE}"
    written = Path(f"/proc/{site.pid}/io")
    before = int(written.read_text().split("write_bytes: ")[1].split()[0])
    with connected(site) as connection:
        connection.sendall(head("POST", path, length))
        # Beyond the door's bound, only what the buffers of both sides hold.
        assert sent_until_refused(connection, GIGABYTE, chunked=chunked) < 24 * 1024**2
    assert not spooled(site)
    assert int(written.read_text().split("write_bytes: ")[1].split()[0]) - before < 1024**2


def test_slow_connections_are_closed_in_time(site: WebProcess) -> None:
    """Nothing at all, half of a head, half of a body, and a silent connection after an answer that began another request."""
    begun = [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: local",
        head("POST", "/api/rag/chat", "Content-Length: 1000") + b'{"mess',
        head("GET", "/healthz") + b"GET /hea",
    ]
    with ExitStack() as opened:
        connections = [opened.enter_context(connected(site)) for _ in range(400)]
        start = time.monotonic()
        for number, connection in enumerate(connections):
            connection.sendall(begun[number % len(begun)])
        answers = [answer(connection) for connection in connections]
        assert time.monotonic() - start < SECONDS + PATIENCE_SECONDS
    kinds = [{said.partition(b"\r\n")[0] for said in answers[number::4]} for number in range(4)]
    assert kinds == [{b""}, {b""}, {b"HTTP/1.1 408 Request Timeout"}, {b"HTTP/1.1 200 OK"}]
    assert site.is_up()


def test_dripping_does_not_keep_a_connection_open(site: WebProcess) -> None:
    with connected(site) as connection:
        start = time.monotonic()
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        with suppress(ConnectionError):
            for number in range(1000):
                connection.sendall(f"X-{number}: y\r\n".encode())
                time.sleep(0.1)
        assert time.monotonic() - start < SECONDS + PATIENCE_SECONDS


def test_connections_beyond_the_limit_are_told_to_come_back(site: WebProcess) -> None:
    with ExitStack() as opened:
        for _ in range(CONNECTIONS):
            opened.enter_context(connected(site)).sendall(b"GET")
        beyond = opened.enter_context(connected(site))
        assert answer(beyond).startswith(b"HTTP/1.1 503 ")
    limit = time.monotonic() + PATIENCE_SECONDS
    while not site.is_up():
        assert time.monotonic() < limit
        time.sleep(0.1)


def test_only_staff_send_files(site: WebProcess) -> None:
    body = b"x" * (3 * 1024**2)

    def status(session_key: str) -> bytes:
        lines = (f"Content-Length: {len(body)}", f"Cookie: sessionid={session_key}")
        with connected(site) as connection:
            connection.sendall(head("POST", "/admin/knowledge/document/add-documents/", *lines))
            with suppress(ConnectionError):
                connection.sendall(body)
            return connection.recv(65536).partition(b"\r\n")[0]

    of_staff, of_others = sessions
    # Read, and refused for its missing token only.
    assert status(of_staff) == b"HTTP/1.1 403 Forbidden"
    for session_key in (of_others, "forged", ""):
        assert b"413" in status(session_key)
