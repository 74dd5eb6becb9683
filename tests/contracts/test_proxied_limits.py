"""Limits of a really served site behind a proxy, whose part the test plays: whose word counts is said by
`TRUSTED_PROXIES` alone.
"""

import json
from collections.abc import Iterator

import httpx2
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from benchmarks.resilience.site import AGENT, Site, WebProcess
from tests.servers.model_server import ModelServer

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

LIMIT = 2
LIMITS = f"""
from agents.models import RuntimeSettings
limits = {{"asks_per_minute_address": {LIMIT}, "asks_per_minute_user": 0}}
RuntimeSettings(values=limits).save()
"""
#: Addresses from which the proxy sees somebody try, each time under another forged one.
CALLERS = ["192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.5", "192.0.2.5"]


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
def http(site: Site, trusted: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    log = tmp_path_factory.mktemp("proxied") / "web.log"
    process = WebProcess({**site.environment, "TRUSTED_PROXIES": str(trusted)}, log)
    try:
        process.start()
        with httpx2.Client(base_url=process.url, timeout=90, trust_env=False) as client:
            yield client
    finally:
        process.kill()


def forwarded(caller: str, number: int) -> dict[str, str]:
    """What the caller wrote, and behind it what the proxy saw."""
    return {"X-Forwarded-For": f"198.51.100.{number}, {caller}"}


def test_questions_are_counted_by_one_address_at_every_door(http: httpx2.Client, admitted: list[bool]) -> None:
    conversation = http.post("/api/conversations/", json={"deployment": AGENT}).json()["id"]
    cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    http.cookies.clear()
    site = str(http.base_url).rstrip("/")

    def over_http(caller: str, number: int) -> bool:
        asked = {"message": "Où est la salle de travail ?", "deployment": AGENT}
        status = http.post("/api/rag/chat", json=asked, headers=forwarded(caller, number)).status_code
        http.cookies.clear()
        assert status in (200, 429)
        return status == 200

    def over_a_socket(caller: str, number: int) -> bool:
        with connect(
            f"{site.replace('http', 'ws')}/ws/chat/{conversation}/",
            origin=Origin(site),
            additional_headers={"Cookie": cookie, **forwarded(caller, number)},
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
