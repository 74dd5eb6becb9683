"""Marks by folder, and what every level shares."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.core.cache import cache
from django.test.signals import setting_changed
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from kombu.transport.memory import Channel as MemoryBroker

from agents.cache import TtlCache
from agents.texts import count_in_french
from tests.constants import Assigned
from tests.servers import of_the_run

#: Two workers of the suite share the cores; a library that starts a thread per core would only wait for the other's.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
#: Chromium and servers are driven from threads of their own beside Django's ORM.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

#: A deadline, or a limit on the time to invent a value, judges the machine: it fails where something else is running.
#: The same examples each time, so that what a run says is about the change; `make fuzz` draws others.
hypothesis_settings.register_profile(
    "suite", deadline=None, derandomize="FUZZ_CASES" not in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("suite")

#: New objects between two looks of the garbage collector; Python's own 700 are for small programs.
COLLECTION_THRESHOLD = 20_000
LEVELS = ("unit", "integration", "contracts", "e2e")


def pytest_configure(config: pytest.Config) -> None:
    # A changed setting makes Django read its catalogues anew, by a listener of its own that is there before.
    setting_changed.connect(count_in_french, dispatch_uid="words")
    # Loaded on demand elsewhere; many tests look at what is registered.
    admin.autodiscover()
    if not hasattr(config, "workerinput"):
        of_the_run.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        of_the_run.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        level = item.path.relative_to(Path(__file__).parent).parts[0]
        if level in LEVELS:
            item.add_marker(getattr(pytest.mark, level))


def pytest_collection_finish() -> None:
    """As a web process does at its start: what is loaded stays, and to look through it again took a seventh of the
    suite.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD, 10, 10)


@pytest.fixture(autouse=True)
def _small_jobs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work is done as soon as a worker is told of it; larger jobs wait for the test to run them."""
    from agents import jobs
    from agents.models import Job

    nudge = jobs.nudge

    def at_once(job_id: int, *, expires: float | None = None) -> None:
        if Job.objects.filter(pk=job_id, kind__in=jobs._FORGOTTEN).exists():
            jobs.run_job(job_id)
        else:
            nudge(job_id, expires=expires)

    monkeypatch.setattr(jobs, "nudge", at_once)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """What a process keeps for some seconds is read anew in each test; no message waits from the one before."""
    TtlCache.clear_all()
    cache.clear()
    MemoryBroker.queues.clear()
    yield
    TtlCache.clear_all()
    cache.clear()


@pytest.fixture(name="settings")
def _settings(settings: Any) -> Iterator[Assigned]:
    with ExitStack() as stack:
        yield Assigned(settings, stack)
