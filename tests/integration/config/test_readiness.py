"""What is told of the parts of a site, whatever becomes of them and however often somebody asks."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client, SimpleTestCase, override_settings

from chat.telemetry import ModelSeen
from config.health import OK, Detail, Part, Readiness, readiness
from tests.constants import override
from tests.waiting import PATIENCE_SECONDS, in_threads

#: Nobody listens there.
AWAY = "redis://127.0.0.1:1/0"


def fine() -> Detail:
    return OK


def down() -> Detail:
    raise RuntimeError("some library's own error")


def told(*parts: tuple[str, Callable[[], Detail], bool]) -> dict[str, Any]:
    return Readiness([Part(*part) for part in parts]).told()


class ReadinessTests(SimpleTestCase):
    def test_required_part_decides(self) -> None:
        database = ("database", fine, True)
        assert told(database, ("broker", fine, False))["status"] == "ok"
        assert told(database, ("broker", down, False))["status"] == "degraded"
        assert told(("database", down, True), ("broker", fine, False))["status"] == "unavailable"
        parts = told(database, ("broker", down, False))["parts"]
        assert parts["database"] == {"required": True, "status": "ok"}
        assert parts["broker"] == {"required": False, "status": "unavailable"}

    @override(PROBE_TIMEOUT_SECONDS=0.2, READY_CACHE_SECONDS=0.0)
    def test_part_that_hangs_is_asked_once_and_awaited_no_longer_than_told(self) -> None:
        answered, begun = threading.Event(), []

        def hangs() -> Detail:
            begun.append(1)
            answered.wait(30)
            return OK

        readiness = Readiness([Part("database", hangs, is_required=True)])
        start = time.monotonic()
        assert {readiness.told()["status"] for _ in range(3)} == {"unavailable"}
        assert time.monotonic() - start < 25
        assert len(begun) == 1
        answered.set()
        while readiness.told()["status"] != "ok":
            assert time.monotonic() - start < 30

    @override(PROBE_TIMEOUT_SECONDS=0.2)
    def test_who_asks_while_another_looks_waits_no_longer_than_told(self) -> None:
        readiness = Readiness([Part("database", fine)])
        asking = threading.Thread(target=readiness.told, daemon=True)
        with readiness._looking:
            asking.start()
            asking.join(PATIENCE_SECONDS)
            assert not asking.is_alive()

    def test_many_who_ask_are_one_look(self) -> None:
        looks: list[int] = []

        def counted() -> Detail:
            looks.append(1)
            return OK

        readiness = Readiness([Part("database", counted)])
        in_threads(*[readiness.told] * 20)
        assert len(looks) == 1

    @override_settings(
        REDIS_URL=AWAY, CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": AWAY}}
    )
    def test_redis_that_is_away_is_said_and_takes_nothing_out_of_service(self) -> None:
        (redis,) = (part for part in readiness()._parts if part.name == "redis")
        with self.assertLogs("config.health", "WARNING") as logs:
            found = Readiness([Part("database", fine, is_required=True), redis]).told()
        assert (found["status"], found["parts"]["redis"]) == ("degraded", {"required": False, "status": "unavailable"})
        assert "redis is unavailable" in logs.output[0]
        with override_settings(REDIS_URL=""):
            assert Readiness([redis]).told()["parts"]["redis"]["status"] == "off"

    def test_model_is_told_as_answers_found_it(self) -> None:
        seen = ModelSeen()
        assert seen.as_json()["status"] == "unknown"
        seen.note(failed=False)
        assert seen.as_json()["status"] == "ok"
        seen.note(failed=True, detail="It knows no model 'gpt-5-large'.")
        assert (seen.as_json()["status"], "gpt-5-large" in seen.as_json()["detail"]) == ("failing", True)
        assert seen.as_json()["seconds_ago"] >= 0


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probe_by_address_is_answered(path: str, db: None) -> None:
    assert Client().get(path, headers={"host": "10.1.2.3:8000"}).status_code != 400
    assert Client().get("/", headers={"host": "10.1.2.3:8000"}).status_code == 400
