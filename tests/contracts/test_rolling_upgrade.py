"""Two instances behind a balancer, upgraded from the release before or restarted, one after the other while people ask:
no question fails.

The code of that release is taken from the history. Its two web processes stand behind a balancer, on PostgreSQL and
Redis; the database is migrated under them, then each is stopped and started with the code of today. 0.1.0 refuses what
reaches it while it ends its answers (503); there, a program asks once more. From 0.2.0 on it asks once.
"""

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import WebSocketException

from benchmarks.resilience.site import (
    DOCUMENT,
    PROJECT,
    MissingServerError,
    WebProcess,
    numbered,
    own_database,
    own_redis,
)
from config.version import VERSION
from tests.releases import keep
from tests.servers.balancer import balancing
from tests.servers.model_server import ModelReply, ModelServer
from tests.web_client import Visitor

pytestmark = [
    pytest.mark.contracts,
    pytest.mark.timeout(1800),
    pytest.mark.skipif("ROLLING_UPGRADE" not in os.environ, reason="minutes by itself: make rolling-upgrade"),
]

RELEASE = "0.1.0"
#: How often both instances of today are restarted.
ROUNDS = 5
AGENT = "guichet"
#: What the model answers in, so that answers are under way whenever a process is stopped.
TOKENS, INTERVAL_SECONDS = 40, 0.02
#: Those the model answers, which is then remembered; one that is stored, and one that is refused.
ASKED = (
    "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {number}.",
    "Quels sont les horaires de la bibliothèque ?",
    "Quelle est la masse du boson de Higgs numéro {number} ?",
)
#: Far more than the times that a process gives to its answers and its connections.
STOP_SECONDS = 60.0
STORED = "\n## Quels sont les horaires de la bibliothèque ?\n\nDe 10 heures à 18 heures.\n"
PREPARE = """
import sys
import django
django.setup()
from django.core.management import call_command
from agents.models import RuntimeSettings
call_command("migrate", verbosity=0)
RuntimeSettings(memory_learning="valid").save()
call_command("create_agent", sys.argv[1])
call_command("add_documents", *sys.argv[1:])
"""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A copy of the project as it was at the release."""
    commit = (keep.HERE / RELEASE / keep.COMMIT).read_text().strip()
    git = shutil.which("git")
    if git is None:
        pytest.skip("no git")
    words = [git, "-C", str(PROJECT), "archive", commit]
    archived = subprocess.run(words, capture_output=True, check=False)  # noqa: S603  # our own words
    if archived.returncode:
        pytest.skip(f"the history does not reach back to {RELEASE}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as tar:
        tar.extractall(tmp_path / "older", filter="data")
    return tmp_path / "older"


class Desk:
    """What both versions share, and the two processes behind the balancer."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = folder
        model = stack.enter_context(ModelServer(fallback=lambda _body: reply()))
        self.environment = {
            **keep.site_environment(folder, stack.enter_context(own_database())),
            "REDIS_URL": stack.enter_context(own_redis()).url,
            "OPENAI_BASE_URL": model.base_url,
            "LLM_MODEL": "lab",
            "RATE_LIMITS": "False",
            "LOG_LEVEL": "WARNING",
        }

    def run(self, project: Path, *words: str, **environment: str) -> None:
        done = subprocess.run(  # noqa: S603  # our own commands
            [sys.executable, *words],
            cwd=project,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def start(self, project: Path, name: str) -> WebProcess:
        process = WebProcess(self.environment, self._folder / f"{name}.log", project=project)
        self._stack.callback(process.kill)
        process.start()
        return process

    def prepare(self, project: Path) -> None:
        document = self._folder / "bibliotheque.md"
        document.write_text(DOCUMENT + STORED)
        # Indexed without the model, which answers questions only.
        self.run(project, "-c", PREPARE, AGENT, str(document), OPENAI_BASE_URL="")

    def restart(self, process: WebProcess) -> None:
        """Stop it in order, and start the code of today."""
        assert process.stop(seconds=STOP_SECONDS) == 0
        process.project = PROJECT
        process.start()

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob("*.log")))


def reply() -> ModelReply:
    return ModelReply(tokens=numbered("réponse", TOKENS), interval=INTERVAL_SECONDS)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        try:
            yield Desk(tmp_path, stack)
        except MissingServerError as missing:
            pytest.skip(str(missing))


class Load:
    """People who ask without a pause, each in a thread; what was not answered is kept with its reason."""

    def __init__(self, ask: Callable[[str], Any], people: int) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._ask = ask
        self._counted = itertools.count()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._go_on, daemon=True) for _ in range(people)]
        for thread in self._threads:
            thread.start()

    def _go_on(self) -> None:
        while not self._over.is_set():
            number = next(self._counted)
            question = ASKED[number % len(ASKED)].format(number=number)
            try:
                status = self._ask(question)
            except Exception as error:  # noqa: BLE001  # whatever it is, a question was not answered
                status = f"{type(error).__name__}: {error}"
            with self._lock:
                if status == "done":
                    self.answered += 1
                else:
                    self.failed.append(f"{question} {status}")

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def wait_for(self, more: int) -> None:
        """Until so many more were answered, so that each stage is one under load."""
        goal, limit = self.answered + more, time.monotonic() + 120
        while self.answered < goal and not self.failed:
            assert time.monotonic() < limit, "Nothing is answered."
            time.sleep(0.05)


def program(url: str, *, tries: int = 1) -> Callable[[str], str]:
    """A program that asks over HTTP, once or, where the desk says that it restarts, so many times."""

    def ask(question: str) -> str:
        said = {"message": question, "deployment": AGENT, "clientMessageId": str(uuid.uuid4())}
        request = urllib.request.Request(  # noqa: S310  # loopback
            f"{url}/api/rag/chat", json.dumps(said).encode(), {"Content-Type": "application/json"}
        )
        for left in reversed(range(tries)):
            try:
                with urllib.request.urlopen(request, timeout=90) as response:  # noqa: S310
                    events = response.read().decode()
                break
            except urllib.error.HTTPError as error:
                if not left or "server_stopping" not in error.read().decode():
                    raise
        last = json.loads(events.rsplit("data: ", 1)[1])
        return str(last.get("status", last))

    return ask


def page(url: str) -> Callable[[str], str]:
    """A reader with the page open: where the connection is lost, it asks again under the same id, as the page does."""

    def ask(question: str) -> str:
        visitor, identifier = Visitor(url, AGENT), str(uuid.uuid4())
        for _connection in range(20):
            try:
                socket = visitor.socket(url)
                socket.ask(question, identifier)
                last = socket.until_end()[-1]
                socket.close()
                return str(last.get("status", last))
            except (OSError, WebSocketException):
                time.sleep(0.2)
        return "the connection was lost again and again"

    return ask


def version_of(process: WebProcess) -> str | None:
    with urllib.request.urlopen(f"{process.url}/readyz", timeout=30) as response:  # noqa: S310
        version: str | None = json.loads(response.read()).get("version")
        return version


class Crowd:
    """Programs and readers, and what they met."""

    def __init__(self, url: str, *, tries: int) -> None:
        self.loads = [Load(program(url, tries=tries), 4), Load(page(url), 3)]

    def under(self, stage: Callable[[], None]) -> None:
        """Do it, and go on when enough of both kinds were answered since."""
        stage()
        for load in self.loads:
            load.wait_for(12)

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_error: object) -> None:
        for load in self.loads:
            load.end()

    @property
    def failed(self) -> list[str]:
        return [failure for load in self.loads for failure in load.failed]

    @property
    def answered(self) -> int:
        return min(load.answered for load in self.loads)


def test_no_question_fails_while_two_instances_are_upgraded(older: Path, desk: Desk) -> None:
    desk.prepare(older)
    instances = [desk.start(older, f"web-{number}") for number in range(2)]
    with balancing([instance.port for instance in instances]) as front, Crowd(front.url, tries=3) as crowd:
        crowd.under(lambda: None)
        crowd.under(lambda: desk.run(PROJECT, "manage.py", "migrate", "--verbosity", "0"))
        for instance in instances:
            crowd.under(partial(desk.restart, instance))
    assert crowd.failed == [], desk.logs()[-3000:]
    assert [version_of(instance) for instance in instances] == [VERSION, VERSION]
    assert crowd.answered > 48


def test_no_question_fails_while_two_instances_of_this_version_restart(desk: Desk) -> None:
    desk.prepare(PROJECT)
    instances = [desk.start(PROJECT, f"web-{number}") for number in range(2)]
    with balancing([instance.port for instance in instances]) as front, Crowd(front.url, tries=1) as crowd:
        for instance in instances * ROUNDS:
            crowd.under(partial(desk.restart, instance))
    assert crowd.failed == [], desk.logs()[-3000:]
    assert crowd.answered > 12 * ROUNDS
