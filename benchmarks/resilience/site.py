"""A site of real web processes that may be killed and started again: on SQLite alone, or on PostgreSQL and Redis."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import psycopg

from tests.servers.commands import PROJECT, python
from tests.servers.model_server import ModelServer
from tests.servers.of_the_run import copied_postgres, migrated_postgres, migrated_sqlite, once, run_folder
from tests.servers.ports import free_port
from tests.servers.postgres import postgres_url
from tests.servers.redis_server import PROGRAM, RedisServer

AGENT = "resilience"
#: The agent's only document has no question in it: every answer is the model's.
DOCUMENT = """# Bibliothèque

## Salles de travail

Les salles de travail de la bibliothèque se réservent à l'accueil, pour deux heures au plus.
"""
#: Two commands in one process: each start of Django costs seconds.
PREPARE = """
import sys

import django

django.setup()
from django.core.management import call_command

call_command("create_agent", sys.argv[1])
call_command("add_documents", *sys.argv[1:])
"""
START_SECONDS = 240.0
#: With any of these a site is filled by itself; without, it is a copy of the run's first.
_OF_ITS_OWN = frozenset({"DATABASE_URL", "DATA_DIR", "DJANGO_SETTINGS_MODULE", "EMBEDDER", "QDRANT_URL"})


class MissingServerError(Exception):
    """PostgreSQL or Redis is not there and cannot be started."""


class WebProcess:
    """`manage.py serve` on a port of its own, which it keeps through its deaths. It may be of another copy of the
    project.
    """

    def __init__(
        self, environment: dict[str, str], log: Path, *, project: Path = PROJECT, with_worker: bool = False
    ) -> None:
        self.port = free_port()
        self.project = project
        self._options = () if with_worker else ("--no-worker",)
        # The suite's own process allows itself what a site has to do without.
        self._environment = {**environment, "DJANGO_ALLOW_ASYNC_UNSAFE": ""}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self._environment.get('BASE_PATH', '')}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "manage.py", "serve", "--port", str(self.port)]
        command += self._options
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                command, cwd=self.project, env=self._environment, stdout=output, stderr=output
            )
        if wait:
            self.wait_until_up()

    def wait_until_up(self) -> None:
        limit = time.monotonic() + START_SECONDS
        while not self.is_up():
            assert self._process is not None
            if time.monotonic() > limit or self._process.poll() is not None:
                raise TimeoutError(f"The site did not come up: {self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def ensure_up(self) -> None:
        """Up, whether it is dead, starting or up now."""
        if self._process is None or self._process.poll() is not None:
            self.start(wait=False)
        self.wait_until_up()

    def is_up(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/healthz", timeout=1).close()  # noqa: S310  # loopback
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self._end(signal.SIGKILL, 10)

    def stop(self, *, seconds: float = 30.0) -> int:
        """As a supervisor does: SIGTERM, then patience; returns the exit status."""
        return self._end(signal.SIGTERM, seconds)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals, seconds: float) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(seconds)


class Site:
    """`with Site(processes=2, shared=True) as site`: the agent is indexed, the processes are up."""

    def __init__(
        self,
        model: ModelServer,
        *,
        processes: int = 1,
        shared: bool = False,
        with_worker: bool = False,
        constants: Mapping[str, float] | None = None,
        **environment: str,
    ) -> None:
        """`shared`: PostgreSQL and a Redis of its own, instead of SQLite. `constants` and `environment` are for the
        processes.
        """
        self._stack = ExitStack()
        self._model = model
        self._count = processes
        self._shared = shared
        self._with_worker = with_worker
        self._constants = dict(constants or {})
        self._extra = environment
        self.redis: RedisServer | None = None
        self.processes: list[WebProcess] = []
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="repondant-lab-")))
            self.environment = self._environment(folder)
            if self._extra.keys() & _OF_ITS_OWN:
                self._run("manage.py", "migrate", "--verbosity", "0")
                self._fill(folder, self.environment)
            for number in range(self._count):
                process = WebProcess(self.environment, folder / f"web-{number}.log", with_worker=self._with_worker)
                self._stack.callback(process.kill)
                process.start(wait=False)
                self.processes.append(process)
            for process in self.processes:
                process.wait_until_up()
            self._folder = folder
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _fill(self, folder: Path, environment: dict[str, str]) -> None:
        """The agent and its document, in a database that was migrated."""
        document = folder / "bibliotheque.md"
        document.write_text(DOCUMENT)
        # Indexed without a model: the model server counts turns only.
        without_model = {"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}
        places = {**environment, "DATA_DIR": str(folder / "data"), **without_model}
        self._run("-c", PREPARE, AGENT, str(document), **places)

    def _filled_sqlite(self, environment: dict[str, str]) -> str:
        def fill() -> str:
            kept = run_folder() / "site"
            kept.mkdir()
            migrated_sqlite(kept / "site.db")
            self._fill(kept, {**environment, "DATABASE_URL": f"sqlite:///{kept / 'site.db'}"})
            return str(kept)

        return once("filled-sqlite", fill)

    def _filled_postgres(self, environment: dict[str, str], server: str) -> str:
        def fill() -> str:
            kept = run_folder() / "shared-site"
            kept.mkdir()
            name = copied_postgres(server, migrated_postgres(server))
            self._fill(kept, {**environment, "DATABASE_URL": f"{server.rsplit('/', 1)[0]}/{name}"})
            return name

        return once("filled-postgres", fill)

    def _environment(self, folder: Path) -> dict[str, str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "benchmarks.resilience.site_settings",
            "SITE_CONSTANTS": json.dumps(self._constants),
            "DATA_DIR": str(folder / "data"),
            "DATABASE_URL": f"sqlite:///{folder / 'site.db'}",
            "OPENAI_BASE_URL": self._model.base_url,
            "OPENAI_API_KEY": "only-for-tests",
            "LLM_MODEL": "lab",
            "EMBEDDER": "local",
            "EMBEDDING_MODEL": "",
            "REDIS_URL": "",
            "QDRANT_URL": "",
            "CELERY_BROKER_URL": "filesystem://",
            # Hundreds of readers come from one address here.
            "LOG_LEVEL": "INFO",
            **self._extra,
        }
        if self._shared:
            filled = partial(self._filled_postgres, environment)
            environment["DATABASE_URL"] = self._stack.enter_context(own_database(filled))
            shutil.copytree(run_folder() / "shared-site" / "data", folder / "data")
            self.redis = self._stack.enter_context(own_redis())
            environment["REDIS_URL"] = self.redis.url
        elif not self._extra.keys() & _OF_ITS_OWN:
            # The command that filled it closed it, and left nothing beside the file.
            kept = Path(self._filled_sqlite(environment))
            shutil.copy(kept / "site.db", folder / "site.db")
            shutil.copytree(kept / "data", folder / "data")
        return environment

    def manage(self, *words: str, **environment: str) -> str:
        return self._run("manage.py", *words, **environment)

    def _run(self, *words: str, **environment: str) -> str:
        return python(*words, environment={**self.environment, **environment}).stdout

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the site's database, read past the product."""
        url = self.environment["DATABASE_URL"]
        if url.startswith("sqlite"):
            import sqlite3

            with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
                return connection.execute(statement).fetchall()
        with psycopg.connect(url) as connection:
            return connection.execute(statement).fetchall()

    def files(self) -> list[Path]:
        """All that the site keeps: its database, documents, figures and logs."""
        return [path for path in self._folder.rglob("*") if path.is_file()]

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob("web-*.log")))


@contextmanager
def own_redis() -> Iterator[RedisServer]:
    if PROGRAM is None:
        raise MissingServerError("no redis-server (apt-get install redis-server)")
    with RedisServer() as server:
        yield server


@contextmanager
def own_database(template: Callable[[str], str] | None = None) -> Iterator[str]:
    """An empty one, or a copy of the database that `template` names on this server."""
    with postgres_url() as url:
        if url is None:
            raise MissingServerError("no PostgreSQL (apt-get install postgresql)")
        name = copied_postgres(url, template(url) if template else "template1")
        try:
            yield f"{url.rsplit('/', 1)[0]}/{name}"
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def last_user_message(body: Any) -> str:
    return str(next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user"))


def numbered(tag: str, count: int) -> Sequence[str]:
    """The tokens of the answer to the question `tag`, in French: each says whose it is and which.

    It says that it does not know: no passage has to vouch for it.
    """
    return [f"{'' if number else 'je ne sais pas : '}le {tag}.{number} " for number in range(count)]
