"""A correction that is killed at every write, and what visitors are told before and after the retry.

    python -m tests.correction_lab [EVERY]

Run as a process of its own, on a database of its own. A wrong answer stands in the memory of two deployments and, in
other words, among the validated answers. Each experiment forks a process that corrects it as staff do and kills itself
with SIGKILL before or after its n-th writing statement or commit; other processes then ask, retry as the worker does,
and ask again. Prints one JSON object a line. Boundaries are counted, not listed: n grows (by EVERY, 1 by default) until
a correction ends without reaching it.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import django

_FOLDER = Path(tempfile.mkdtemp(prefix="repondant-correction-"))
DATABASE = _FOLDER / "lab.db"
os.environ["TEST_DATA_DIR"] = str(_FOLDER)
os.environ["DATABASE_URL"] = f"sqlite:///{DATABASE}"
os.environ["LOG_LEVEL"] = "CRITICAL"
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection, connections  # noqa: E402

from agents.models import Deployment  # noqa: E402
from chat.protocol import Event  # noqa: E402
from chat.turn.path import run_turn  # noqa: E402
from chat.turn.values import TurnRequest  # noqa: E402
from faqs.answer_points import sync_learned  # noqa: E402
from faqs.answers import learn_from_message  # noqa: E402
from faqs.models import LearnedResponse  # noqa: E402
from knowledge.language import spelling  # noqa: E402
from tests.factories import add_document, make_agent, make_deployment, make_entry, make_learned  # noqa: E402
from tests.servers.of_the_run import migrated_sqlite  # noqa: E402

settings.DATABASE_THREAD_SENSITIVE = False
QUESTION = "Quels sont les horaires de la piscine ?"
REWORDED = "Pouvez-vous me dire quels sont les horaires de la piscine ?"
OLD, NEW = "De 9 heures à 20 heures.", "De 7 heures à 22 heures."
_WRITES = ("INSERT", "UPDATE", "DELETE")


def build() -> None:
    """The site as it stands before the correction, kept as a file that every experiment starts from."""
    migrated_sqlite(DATABASE)
    agent = make_agent()
    add_document(agent)
    overlay = {"memory_threshold": 0.7}
    make_learned(agent, question=REWORDED, answer=OLD)
    for slug in ("premier", "second"):
        make_entry(make_deployment(agent, slug=slug, config_overlay=overlay), QUESTION, OLD)
    keep()


def keep() -> None:
    """The database as it is now is what `restore` brings back."""
    connections.close_all()
    with_checkpoint = connection.cursor()
    with_checkpoint.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connections.close_all()
    shutil.copy(DATABASE, _FOLDER / "before.db")


def restore() -> None:
    connections.close_all()
    for suffix in ("-wal", "-shm"):
        Path(f"{DATABASE}{suffix}").unlink(missing_ok=True)
    shutil.copy(_FOLDER / "before.db", DATABASE)


@contextmanager
def boundaries(fatal: int) -> Iterator[None]:
    """Kill this process before or after its `fatal`-th write or commit."""
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if not sql.lstrip().startswith(_WRITES):
            return execute(sql, *rest)
        tick()
        result = execute(sql, *rest)
        tick()
        return result

    commit = connection._commit  # type: ignore[attr-defined]

    def watched_commit() -> None:
        tick()
        commit()
        tick()

    with (
        connection.execute_wrapper(watched),
        mock.patch.object(connection, "_commit", watched_commit),
        mock.patch("faqs.answer_points.nudge"),
    ):
        yield


def correct(fatal: int) -> None:
    agent = Deployment.objects.get(slug="premier").agent
    with boundaries(fatal):
        learn_from_message(agent=agent, message_uuid=uuid.uuid4(), question=QUESTION, answer=NEW)


def forked(work: Callable[[], None]) -> int:
    """Run in a forked process; returns its exit code, negative for a signal."""
    connections.close_all()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001  # a forked process must end here
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def told(deployment: Deployment, question: str) -> list[str]:
    """Which of the two answers a visitor is given."""

    async def ignore(_event: Event) -> None:
        return None

    request = TurnRequest(deployment_id=deployment.pk, question=question, language="fr")
    text = asyncio.run(run_turn(request, ignore)).answer.text
    return [name for name, answer in (("old", OLD), ("new", NEW)) if answer in text]


def ask_everywhere() -> dict[str, list[str]]:
    """What both deployments say to both wordings, by a process that has seen nothing."""
    path = _FOLDER / "told.json"

    def work() -> None:
        answers = {
            f"{deployment.slug} {name}": told(deployment, question)
            for deployment in Deployment.objects.order_by("slug")
            for name, question in (("same", QUESTION), ("reworded", REWORDED))
        }
        path.write_text(json.dumps(answers))

    if forked(work):
        raise RuntimeError("The lab could not ask.")
    found: dict[str, list[str]] = json.loads(path.read_text())
    return found


def retry() -> None:
    """As the worker does it."""
    sync_learned()


def experiment(fatal: int) -> dict[str, Any]:
    restore()
    status = forked(lambda: correct(fatal))
    is_written = LearnedResponse.objects.filter(answer=NEW).exists()
    first = ask_everywhere()
    retried = forked(retry)
    return {
        "boundary": fatal,
        "status": status,
        "is_written": is_written,
        "first": first,
        "retried": retried,
        "after": ask_everywhere(),
        "settled": not LearnedResponse.objects.unsettled().exists(),
    }


def main(every: int) -> None:
    build()
    # Each forked process would read the words of the languages anew: most of what it costs.
    spelling.warm_up()
    fatal, status = 1, -signal.SIGKILL
    while status:
        row = experiment(fatal)
        status = row["status"]
        sys.stdout.write(f"{json.dumps(row)}\n")
        sys.stdout.flush()
        fatal += every
    shutil.rmtree(_FOLDER, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
