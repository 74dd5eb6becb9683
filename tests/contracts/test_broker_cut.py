"""Three machines over a broker: uploaded on one, indexed by another, answered by a third. Then the broker, a Redis, is
killed with all it holds and comes back: what was uploaded meanwhile is kept, said, and indexed afterwards by itself.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from benchmarks.resilience.site import own_redis
from tests.contracts.test_several_machines import DOCUMENT, Machines, answer, upload
from tests.servers.redis_server import RedisServer
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

OTHER = "# Piscine\n\n## Quand ouvre la piscine ?\n\nÀ neuf heures.\n"


@pytest.fixture
def broker() -> Iterator[RedisServer]:
    with own_redis() as server:
        yield server


@pytest.fixture
def machines(tmp_path: Path, broker: RedisServer) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(tmp_path, stack, broker.url)


def readiness(url: str) -> dict[str, Any]:
    told: dict[str, Any] = httpx2.get(f"{url}/readyz", timeout=30, trust_env=False).json()
    return told


def test_what_one_uploads_another_indexes_and_a_third_answers_also_once_the_broker_was_away(
    machines: Machines, broker: RedisServer
) -> None:
    web, answering = machines.web("A"), machines.web("C")
    machines.worker("B")
    upload(web.url, "mairie.md", DOCUMENT)
    machines.wait_for_builds(["done"])
    assert "Quatre euros" in answer(answering.url, "Combien coûte une place de marché ?")
    broker.kill()
    shown = upload(web.url, "piscine.md", OTHER)
    assert "La file des tâches est injoignable" in shown
    assert machines.builds() == ["done", "queued"]
    # Its readers notice nothing.
    assert "Quatre euros" in answer(web.url, "Combien coûte une place de marché ?")
    wait_until(lambda: readiness(web.url)["parts"]["broker"]["status"] == "unavailable", 60)
    assert readiness(web.url)["status"] == "degraded"
    broker.start()
    machines.wait_for_builds(["done", "done"])
    assert "neuf heures" in answer(web.url, "Quand ouvre la piscine ?")
    wait_until(lambda: readiness(web.url)["parts"]["broker"]["status"] == "ok", 60)
    upload(web.url, "piscine.md", OTHER.replace("neuf", "dix"))
    machines.wait_for_builds(["done", "done", "done"])
    assert "dix heures" in answer(web.url, "Quand ouvre la piscine ?")
