"""Three machines over each broker: uploaded on one, indexed by another, answered by a third. Then the broker goes and
comes back: what was uploaded meanwhile is kept, said, and indexed afterwards by itself.

Redis is killed with all it holds. The line to RabbitMQ is cut: the server itself belongs to others, too.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from benchmarks.resilience.site import MissingServerError, own_redis
from tests.contracts.test_several_machines import DOCUMENT, Machines, answer, upload
from tests.servers.cutting import line_to
from tests.servers.rabbitmq import amqp_url
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

OTHER = "# Piscine\n\n## Quand ouvre la piscine ?\n\nÀ neuf heures.\n"


class Cut(NamedTuple):
    machines: Machines
    end: Callable[[], None]
    mend: Callable[[], None]


@pytest.fixture(params=["redis", "amqp"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cut]:
    with ExitStack() as stack:
        try:
            if request.param == "redis":
                server = stack.enter_context(own_redis())
                url, end, mend = server.url, server.kill, server.start
            else:
                whole = stack.enter_context(amqp_url())
                if whole is None:
                    pytest.skip("no RabbitMQ that a virtual host can be made on")
                port = urlsplit(whole).port or 5672
                line = stack.enter_context(line_to(port))
                url, end, mend = whole.replace(f":{port}/", f":{line.port}/"), line.cut, line.mend
            yield Cut(Machines(tmp_path, stack, url), end, mend)
        except MissingServerError as missing:
            pytest.skip(str(missing))


def readiness(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/readyz", timeout=30) as response:  # noqa: S310  # loopback
        told: dict[str, Any] = json.loads(response.read())
        return told


def test_what_one_uploads_another_indexes_and_a_third_answers_also_once_the_broker_was_away(broker: Cut) -> None:
    machines = broker.machines
    web, answering = machines.web("A"), machines.web("C")
    machines.worker("B")
    upload(web.url, "mairie.md", DOCUMENT)
    machines.wait_for_builds(["done"])
    assert "Quatre euros" in answer(answering.url, "Combien coûte une place de marché ?")
    broker.end()
    shown = upload(web.url, "piscine.md", OTHER)
    assert "La file des tâches est injoignable" in shown
    assert machines.builds() == ["done", "queued"]
    # Its readers notice nothing.
    assert "Quatre euros" in answer(web.url, "Combien coûte une place de marché ?")
    wait_until(lambda: readiness(web.url)["parts"]["broker"]["status"] == "unavailable", 60)
    assert readiness(web.url)["status"] == "degraded"
    broker.mend()
    machines.wait_for_builds(["done", "done"])
    assert "neuf heures" in answer(web.url, "Quand ouvre la piscine ?")
    wait_until(lambda: readiness(web.url)["parts"]["broker"]["status"] == "ok", 60)
    upload(web.url, "piscine.md", OTHER.replace("neuf", "dix"))
    machines.wait_for_builds(["done", "done", "done"])
    assert "dix heures" in answer(web.url, "Quand ouvre la piscine ?")
