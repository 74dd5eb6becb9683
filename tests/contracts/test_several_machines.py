"""Machines of one site, each with a data folder of its own: a file is uploaded on one, indexed by another, answered by
a third.

They share PostgreSQL, Redis, a broker and the folder of the documents, and nothing else. Over a broker, and while it
is away: `test_broker_cut.py`.
"""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from benchmarks.resilience.site import WebProcess, own_database, own_redis
from tests.releases import keep
from tests.servers.commands import PROJECT, python
from tests.servers.of_the_run import migrated_postgres
from tests.waiting import wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

AGENT, USER, PASSWORD = "guichet", "marianne", "liberte-egalite"
PREPARE = """
import sys
import django
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
call_command("create_agent", sys.argv[1])
get_user_model().objects.create_superuser(sys.argv[2], password=sys.argv[3])
"""
DOCUMENT = "# Mairie\n\n## Combien coûte une place de marché ?\n\nQuatre euros le mètre.\n"
PATIENCE_SECONDS = 120.0


class Machines:
    """The site's shared parts; `environment` is that of one machine."""

    def __init__(self, folder: Path, stack: ExitStack, broker: str | None) -> None:
        self._folder = folder
        self._stack = stack
        self._database = stack.enter_context(own_database(migrated_postgres))
        self._redis = stack.enter_context(own_redis()).url
        self._broker = broker or f"{self._redis.removesuffix('/0')}/1"
        python("-c", PREPARE, AGENT, USER, PASSWORD, environment=self.environment("A"))

    def environment(self, name: str, *, shared: bool = True) -> dict[str, str]:
        storage = str(self._folder / "shared") if shared else ""
        return {
            **keep.site_environment(self._folder / name, self._database),
            "REDIS_URL": self._redis,
            "CELERY_BROKER_URL": self._broker,
            "DOCUMENT_STORAGE": storage,
            "LOG_LEVEL": "WARNING",
        }

    def web(self, name: str) -> WebProcess:
        process = WebProcess(self.environment(name), self._folder / f"{name}.log")
        self._stack.callback(process.kill)
        process.start()
        return process

    def worker(self, name: str, *, shared: bool = True) -> "subprocess.Popen[bytes]":
        words = "-m celery --app config --quiet worker --pool solo --loglevel WARNING"
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(  # noqa: S603  # our own commands
            [sys.executable, *words.split(), "--hostname", f"{name}-{uuid.uuid4().hex[:8]}@here"],
            cwd=PROJECT,
            env=self.environment(name, shared=shared),
            stdout=log,
            stderr=log,
        )
        self._stack.callback(process.wait, 30)
        self._stack.callback(process.kill)
        return process

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def builds(self) -> list[str]:
        with psycopg.connect(self._database) as connection:
            rows = connection.execute("SELECT status FROM agents_job WHERE kind = 'documents' ORDER BY id")
            return [status for (status,) in rows]

    def wait_for_builds(self, wanted: list[str]) -> None:
        wait_until(lambda: self.builds() == wanted, PATIENCE_SECONDS)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """With Redis as their broker: what they share of the documents is looked at before any broker is."""
    with ExitStack() as stack:
        yield Machines(tmp_path, stack, None)


def upload(url: str, name: str, text: str) -> str:
    """As staff do in the browser: sign in, then the form of the admin; the page that they see then."""
    with httpx2.Client(base_url=url, timeout=60, follow_redirects=True, trust_env=False) as browser:

        def send(form: str, fields: dict[str, str], **files: Any) -> str:
            browser.get(form).raise_for_status()
            fields["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
            return browser.post(form, data=fields, files=files).raise_for_status().text

        send("/login/", {"login": USER, "password": PASSWORD, "next": "/admin/"})
        file = (name, text.encode(), "text/markdown")
        return send("/admin/knowledge/document/add/", {"agent": "1", "category": ""}, uploads=file)


def answer(url: str, question: str) -> str:
    asked = {"message": question, "deployment": AGENT}
    events = httpx2.post(f"{url}/api/rag/chat", json=asked, timeout=90, trust_env=False).raise_for_status().text
    return str(json.loads(events.rsplit("data: ", 1)[1]).get("content", events))


def test_worker_that_does_not_see_the_documents_ends_and_says_why(machines: Machines) -> None:
    uploading = machines.web("A")
    upload(uploading.url, "mairie.md", DOCUMENT)
    blind = machines.worker("B", shared=False)
    assert blind.wait(PATIENCE_SECONDS) == 1
    assert "Set the same DOCUMENT_STORAGE" in machines.log("B")
    assert machines.builds() == ["queued"]
    machines.worker("B")
    machines.wait_for_builds(["done"])
