"""The same suite on the other database and the other vector stores: `python -m tests.matrix [database] [store]`.

SQLite with the table store is `make test`. Here: PostgreSQL with the table (`database`), and SQLite with Qdrant's
in-process mode and with a Qdrant server where `QDRANT_URL` is set (`store`). What is not there is said and left out.
Another store changes what searches, indexes, rebuilds and counts. Of a grid of cases that `make test` tries whole (every
way to write × every place) each row and each column is tried here (`IS_REPEATED`): a statement fails with the database
or the store, not with the pair.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from tests.servers.postgres import postgres_url

#: What writes rows at once with others, counts them by day, or holds more than text: jobs, threads, vectors, answers.
ON_ANOTHER_DATABASE = [
    "tests/contracts/test_vector_store.py",
    "tests/integration/agents",
    "tests/integration/faqs",
    "tests/integration/knowledge/indexing",
    "tests/integration/knowledge/vectors",
    "tests/integration/chat/retention",
    "tests/integration/chat/runs",
    "tests/integration/chat/staff",
    "tests/integration/chat/thread",
    *("-k", "not qdrant-memory"),
]
#: What writes points or searches them. The protocol's own suite is not here: `make test` runs it over every store.
ON_ANOTHER_STORE = [
    "tests/integration/knowledge/commands",
    "tests/integration/knowledge/indexing",
    "tests/integration/knowledge/test_hybrid_search.py",
    "tests/integration/faqs/test_admin.py",
    "tests/integration/faqs/test_commands.py",
    "tests/integration/faqs/answers",
    "tests/integration/faqs/test_learning.py",
    "tests/integration/faqs/test_memory_admin.py",
    "tests/integration/faqs/test_memory_array.py",
    "tests/integration/faqs/test_recall.py",
    "tests/integration/tools_registry/test_builtin_tools.py",
    "tests/integration/tools_registry/test_selection.py",
    "tests/integration/chat/turn/test_path.py",
    "tests/integration/chat/turn/test_learned.py",
    "tests/integration/chat/turn/test_dispatch.py",
    "tests/integration/chat/turn/test_newest_word.py",
]
#: Whether this process is of a run that repeats the suite.
IS_REPEATED = os.environ.get("TEST_REPEATED") == "1"
#: As `make test` runs it.
PYTEST = "-m pytest -n logical --dist loadscope --no-loadscope-reorder -p no:cacheprovider".split()


def main(parts: Sequence[str]) -> int:
    failed = 0
    if "store" in parts:
        failed |= on_other_stores()
    if "database" in parts:
        failed |= on_postgresql()
    return failed


def on_other_stores() -> int:
    failed = run("SQLite, Qdrant in process", ON_ANOTHER_STORE, TEST_VECTOR_STORE="qdrant-memory")
    if os.environ.get("QDRANT_URL"):
        failed |= run("SQLite, Qdrant server", ON_ANOTHER_STORE, TEST_VECTOR_STORE="qdrant")
    else:
        say("Qdrant server: skipped, QDRANT_URL is not set.")
    return failed


def on_postgresql() -> int:
    with postgres_url() as url:
        if url is None:
            say("PostgreSQL: skipped, no server answers and none is installed.")
            return 0
        return run("PostgreSQL, table", ON_ANOTHER_DATABASE, DATABASE_URL=url)


def run(name: str, tests: list[str], **environment: str) -> int:
    say(f"== {name}")
    command = [sys.executable, *PYTEST, *tests]
    repeating = {**os.environ, "TEST_REPEATED": "1", **environment}
    return subprocess.run(command, env=repeating, check=False).returncode  # noqa: S603


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["store", "database"]))
