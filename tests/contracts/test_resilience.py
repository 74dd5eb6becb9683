"""Questions under lost connections, reloads, resends and killed servers (`benchmarks/resilience`): each answered once.

By default a few on SQLite and a few on two processes with PostgreSQL and Redis; `RESILIENCE_FULL=1` sends a thousand to
each (about half an hour).
"""

import json
import os

import pytest

from tests.servers.commands import python
from tests.servers.postgres import postgres_url
from tests.servers.redis_server import PROGRAM

pytestmark = pytest.mark.contracts

FULL = bool(os.environ.get("RESILIENCE_FULL"))
#: Every trouble several times, and a few servers killed: each costs the seconds of a start.
SAMPLE = "--sends 24 --people 6 --kill-every 2 --kill-answers 4".split()
SITES = {"sqlite": [], "shared": ["--processes", "2", "--shared"]}


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("site", SITES)
def test_each_question_is_answered_exactly_once_whatever_fails(site: str) -> None:
    if site == "shared":
        with postgres_url() as url:
            if url is None or PROGRAM is None:
                pytest.skip("PostgreSQL or redis-server is not on this machine")
    size = ["--sends", "1000"] if FULL else SAMPLE
    found = json.loads(python("-m", "benchmarks.resilience.run", *size, *SITES[site]).stdout)
    assert found["servers killed"] >= 1
    assert {name: count for name, count in found["verdict"].items() if count} == {}
