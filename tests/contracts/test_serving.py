"""`serve` with several web processes on one port: whoever of them dies, the port answers, and nobody is left behind."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import psutil
import pytest

from benchmarks.resilience.site import AGENT, Site, WebProcess
from tests.servers.model_server import ModelServer
from tests.waiting import wait_until
from tests.web_client import Visitor

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(900)]

#: Longer than a web process takes to start again on a busy machine.
PATIENCE_SECONDS = 90.0


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ModelServer() as model, Site(model, WEB_PROCESSES="2", METRICS_TOKEN="secret") as served:
        yield served


@pytest.fixture
def server(site: Site) -> WebProcess:
    """Up, with both of its web processes."""
    (process,) = site.processes
    process.ensure_up()
    wait_for_both(process)
    return process


def children(server: WebProcess) -> list[psutil.Process]:
    """Its web processes; Python has another one beside them, which tracks what they share."""
    return [each for each in psutil.Process(server.pid).children() if _serves(each)]


def _serves(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def answers(server: WebProcess) -> bool:
    return httpx2.get(f"{server.url}/healthz", timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200


def wait_for_both(server: WebProcess) -> None:
    wait_until(lambda: len(children(server)) == 2, PATIENCE_SECONDS)


def test_killed_process_is_replaced_and_no_connection_is_refused(server: WebProcess) -> None:
    first, second = children(server)
    first.kill()
    assert all(answers(server) for _ in range(10))
    wait_for_both(server)
    assert second in children(server)
    assert first not in children(server)


def test_figures_of_both_are_added_up(server: WebProcess) -> None:
    secret = {"Authorization": "Bearer secret"}
    visitor = Visitor(server.url, AGENT)
    with ExitStack() as opened:
        for _ in range(8):
            opened.enter_context(visitor.socket(server.url).connection)
        for _ in range(8):
            told = httpx2.get(f"{server.url}/metrics", headers=secret, timeout=PATIENCE_SECONDS, trust_env=False)
            assert "repondant_sockets 8.0" in told.text


def test_port_of_another_server_is_not_shared(server: WebProcess, site: Site) -> None:
    with pytest.raises(RuntimeError, match=f"Port {server.port}"):
        site.manage("serve", "--no-worker", "--port", str(server.port))


def test_sigterm_ends_them_in_order(server: WebProcess) -> None:
    before = children(server)
    assert server.stop() == 0
    assert not any(child.is_running() for child in before)


def test_killed_server_leaves_no_process_behind(server: WebProcess) -> None:
    before = children(server)
    server.kill()
    _gone, alive = psutil.wait_procs(before, timeout=PATIENCE_SECONDS)
    assert not alive
