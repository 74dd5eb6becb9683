"""A really served site against raw sockets: what is too long is refused before it is read, what is too slow is closed."""

import json
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess
from chat.server.connections import REQUESTS_AHEAD, SOCKETS_SHARE
from tests.servers.model_server import ModelServer

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

GIGABYTE = 1024**3
SECONDS = 1.0
#: What a busy machine may add to a time of the site.
PATIENCE_SECONDS = 15.0
CONNECTIONS = 450
SOCKETS_PER_ADDRESS = 200
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
        Site(
            model, constants=bounds, WEB_CONNECTIONS=str(CONNECTIONS), WEB_SOCKETS_PER_ADDRESS=str(SOCKETS_PER_ADDRESS)
        ) as served,
    ):
        (process,) = served.processes
        sessions.extend(served.manage("shell", "-v", "0", "-c", SIGN_IN).split())
        yield process


def connected(site: WebProcess, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS, source_address=(address, 0))


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
def test_body_that_says_it_is_too_long_is_refused_before_it_is_sent(site: WebProcess, path: str) -> None:
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
    """Nothing at all, half of a head, half of a body, and a silent connection after an answer that began another
    request.
    """
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


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
SOCKET = b"GET /ws/chat/x/ HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
#: What comes again and again, after what.
ENDLESS = {
    "address": (b"GET /healthz?", b"a" * 4096),
    "header": (REQUEST + b"X-Long: ", b"a" * 4096),
    "header-name": (REQUEST, b"a" * 4096),
    "headers": (REQUEST, b"X-More: 1\r\n"),
    "socket-header": (SOCKET + b"X-Long: ", b"a" * 4096),
    "socket-headers": (SOCKET, b"X-More: 1\r\n"),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X-More: 1\r\n"),
    "trailer": (CHUNKED + b"1\r\nx\r\n0\r\nX-Long: ", b"a" * 4096),
    "chunk-extension": (CHUNKED + b"1;", b"a" * 4096),
    "empty-lines": (b"", b"\r\n" * 2048),
}
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large"


def resident(site: WebProcess) -> int:
    return int(psutil.Process(site.pid).memory_info().rss)


def until_refused(connection: socket.socket, piece: bytes, size: int) -> int:
    sent = 0
    with suppress(ConnectionError):
        while sent < size:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize("kept_alive", [False, True])
@pytest.mark.parametrize("kind", ENDLESS)
def test_head_without_end_is_refused(site: WebProcess, kind: str, kept_alive: bool) -> None:
    begin, more = ENDLESS[kind]
    before = resident(site)
    with connected(site) as connection:
        if kept_alive:
            connection.sendall(head("GET", "/healthz"))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(begin)
        # Much faster than the time for the headers is over.
        many = more * (65536 // len(more))
        assert until_refused(connection, many, 64 * 1024**2) < 24 * 1024**2
    assert resident(site) - before < 16 * 1024**2
    assert site.is_up()


@pytest.mark.parametrize("kind", ENDLESS)
def test_head_that_trickles_is_told_that_it_is_too_large(site: WebProcess, kind: str) -> None:
    """A little more than is taken, in small pieces, so that nothing is on its way when the answer comes."""
    begin, more = ENDLESS[kind]
    with connected(site) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(0.01)
        connection.sendall(begin)
        said, sent = b"", 0
        while not said and sent < 128 * 1024:
            connection.sendall(more * (1024 // len(more) or 1))
            sent += 1024
            with suppress(TimeoutError):
                said = connection.recv(65536)
        connection.settimeout(PATIENCE_SECONDS)
        said += answer(connection)
    assert said.startswith(TOO_LARGE)
    assert b"connection: close" in said


def test_head_that_comes_whole_is_told_that_it_is_too_large(site: WebProcess) -> None:
    long, many = "x" * 60_000, [f"X-{number}: y" for number in range(120)]
    for sent in (
        head("GET", f"/healthz?{long}"),
        head("GET", "/healthz", f"Cookie: {long}"),
        head("GET", "/healthz", *many),
        SOCKET + "\r\n".join([*many, "", ""]).encode(),
    ):
        with connected(site) as connection:
            connection.sendall(sent)
            assert answer(connection).startswith(TOO_LARGE)
    # Nor does it take the place of an answer that is due.
    with connected(site) as connection:
        connection.sendall(head("GET", "/healthz") + head("GET", "/healthz", *many))
        said = answer(connection)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert said.count(b"HTTP/1.1 ") == 1


def test_usual_heads_bodies_and_trailers_are_taken(site: WebProcess) -> None:
    """Headers as long as proxies let them be, requests sent ahead, bodies longer than any head, in chunks or not."""
    cookie = f"Cookie: a={'x' * 24_000}"
    some = [f"X-{number}: y" for number in range(90)]
    whole = head("POST", "/healthz", "Content-Length: 60000") + b"x" * 60_000
    chunks = CHUNKED + b"1;name=value\r\nx\r\n" * 6_000 + b"0\r\nX-Sum: 1\r\n\r\n"
    last = head("GET", "/healthz", "Connection: close")
    sent = [head("GET", "/healthz", cookie), head("GET", "/healthz", *some), whole, chunks]
    for requests in (*([each] for each in sent), sent):
        with connected(site) as connection:
            connection.sendall(b"".join([*requests, last]))
            said = answer(connection)
        taken = said.count(b"HTTP/1.1 200 ") + said.count(b"HTTP/1.1 405 ")
        assert taken == said.count(b"HTTP/1.1 ") == len(requests) + 1


@pytest.mark.parametrize("line", [f"Cookie: {'x' * 9_000}", "Transfer-Encoding: chunked", "Content-Length: 5"])
def test_handshake_that_is_none_is_told_so(site: WebProcess, line: str) -> None:
    """uvicorn waited on, silently and for ever, where a handshake has a body or a long line."""
    with connected(site) as connection:
        connection.sendall(SOCKET + f"{line}\r\n\r\n".encode())
        assert answer(connection).startswith(b"HTTP/1.1 400 ")


def test_requests_sent_ahead_have_an_end(site: WebProcess) -> None:
    """Each that waits for the one before costs memory, and answers make room for more of them."""
    before = resident(site)
    with connected(site) as connection:
        until_refused(connection, head("GET", "/healthz") * 1000, 64 * 1024**2)
    assert resident(site) - before < 16 * 1024**2
    with connected(site) as connection:
        connection.sendall(head("GET", "/healthz") * (REQUESTS_AHEAD + 2))
        assert answer(connection).count(b"HTTP/1.1 200 ") == REQUESTS_AHEAD + 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback is one address")
def test_sockets_have_a_limit_by_address_and_leave_room_for_requests(site: WebProcess) -> None:
    most = int(CONNECTIONS * SOCKETS_SHARE)
    question = json.dumps({"deployment": AGENT}).encode()
    request = urllib.request.Request(  # noqa: S310  # loopback
        f"{site.url}/api/conversations/", question, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as made:  # noqa: S310  # loopback
        conversation = json.loads(made.read())["id"]
        cookies = [line.partition(";")[0] for line in made.headers.get_all("Set-Cookie")]
    handshake = head(
        *("GET", f"/ws/chat/{conversation}/", f"Cookie: {'; '.join(cookies)}"),
        *("Origin: http://localhost", "Connection: Upgrade", "Upgrade: websocket"),
        *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: c29ja2V0IG9mIGEgdGVzdA=="),
        # Nobody's word counts here.
        *[f"X-Forwarded-For: 192.0.2.{number}" for number in range(2)],
    )

    def opened(address: str, stack: ExitStack) -> bytes:
        connection = stack.enter_context(connected(site, address))
        connection.sendall(handshake)
        return connection.recv(65536).partition(b"\r\n")[0]

    switching = b"HTTP/1.1 101 Switching Protocols"
    with ExitStack() as all_of_them:
        with ExitStack() as of_one:
            for _ in range(SOCKETS_PER_ADDRESS):
                assert opened("127.0.0.2", of_one) == switching
            for _ in range(20):
                assert opened("127.0.0.2", of_one) == b"HTTP/1.1 429 Too Many Requests"
            for number in range(most - SOCKETS_PER_ADDRESS):
                assert opened(f"127.0.0.{3 + number % 2}", all_of_them) == switching
            assert opened("127.0.0.5", all_of_them) == b"HTTP/1.1 503 Service Unavailable"
            for path in ("/healthz", "/readyz", "/login/"):
                with urllib.request.urlopen(f"{site.url}{path}", timeout=PATIENCE_SECONDS) as page:  # noqa: S310  # loopback
                    assert page.status == 200
        # Whoever closes makes room.
        limit = time.monotonic() + PATIENCE_SECONDS
        while opened("127.0.0.2", all_of_them) != switching:
            assert time.monotonic() < limit
            time.sleep(0.1)
