"""Limits of a really served site behind a proxy on its own machine: whose word counts is said by `TRUSTED_PROXIES`
alone.
"""

import http.client
import json
import sys
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from benchmarks.resilience.site import AGENT, Site, WebProcess
from tests.servers.model_server import ModelServer
from tests.servers.reverse_proxy import reverse_proxy

pytestmark = [
    pytest.mark.contracts,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback is one address"),
]

LIMIT = 2
LIMITS = f"""
from agents.models import RuntimeSettings
limits = {{"asks_per_minute_address": {LIMIT}, "asks_per_minute_user": 0}}
RuntimeSettings(values=limits).save()
"""
#: Addresses of this machine from which somebody tries, each time under another forged one.
CALLERS = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.5", "127.0.0.5"]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    # What uvicorn itself would read must count for nothing.
    with ModelServer() as model, Site(model, processes=0, FORWARDED_ALLOW_IPS="*") as made:
        made.manage("shell", "-c", LIMITS)
        yield made


@pytest.fixture(scope="module", params=[0, 1], ids=["none-trusted", "one-trusted"])
def trusted(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def admitted(trusted: int) -> list[bool]:
    """Without a trusted proxy all are one address; with one, its word tells them apart, and theirs counts for nothing."""
    return [True] * 5 + [False] if trusted else [True] * LIMIT + [False] * 4


@pytest.fixture(scope="module")
def port(site: Site, trusted: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a proxy in front of the site."""
    log = tmp_path_factory.mktemp("proxied") / "web.log"
    process = WebProcess({**site.environment, "TRUSTED_PROXIES": str(trusted)}, log)
    try:
        process.start()
        with reverse_proxy(process.port) as port:
            yield port
    finally:
        process.kill()


def forged(number: int) -> dict[str, str]:
    return {"X-Forwarded-For": f"198.51.100.{number}"}


def call(port: int, caller: str, path: str, body: str = "", **headers: str) -> http.client.HTTPResponse:
    """A request with a connection of its own, which ends with its response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90, source_address=(caller, 0))
    connection.request("POST" if body else "GET", path, body or None, headers)
    return connection.getresponse()


def cookies_of(response: http.client.HTTPResponse) -> str:
    return "; ".join(line.partition(";")[0] for line in response.headers.get_all("Set-Cookie", []))


def test_questions_are_counted_by_one_address_at_every_door(port: int, admitted: list[bool]) -> None:
    with call(
        port,
        "127.0.0.1",
        "/api/conversations/",
        json.dumps({"deployment": AGENT}),
        **{"Content-Type": "application/json"},
    ) as opened:
        conversation, cookie = json.loads(opened.read())["id"], cookies_of(opened)

    def over_http(caller: str, number: int) -> bool:
        body = json.dumps({"message": "Où est la salle de travail ?", "deployment": AGENT})
        with call(port, caller, "/api/rag/chat", body, **forged(number)) as response:
            response.read()
            assert response.status in (200, 429)
            return bool(response.status == 200)

    def over_a_socket(caller: str, number: int) -> bool:
        with connect(
            f"ws://127.0.0.1:{port}/ws/chat/{conversation}/",
            origin=Origin(f"http://127.0.0.1:{port}"),
            additional_headers={"Cookie": cookie, **forged(number)},
            source_address=(caller, 0),
            open_timeout=90,
        ) as socket:
            socket.send(json.dumps({"type": "ask", "message": "Où est la salle de travail ?"}))
            while (frame := json.loads(socket.recv(90)))["type"] not in ("done", "error"):
                pass
            assert frame["type"] == "done" or frame["code"] == "rate_limited"
            return bool(frame["type"] == "done")

    doors = [over_http, over_a_socket] * 3
    told = [door(caller, number) for number, (door, caller) in enumerate(zip(doors, CALLERS, strict=True))]
    assert told == admitted
