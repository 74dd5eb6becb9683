"""The same suite on the other database and the other vector stores: `python -m tests.matrix`.

SQLite with the table store is `make test`. Here: PostgreSQL with the table, SQLite with Qdrant's in-process mode, and a
Qdrant server where `QDRANT_URL` is set. What is not there is said and left out.
"""

import os
import subprocess
import sys

from tests.postgres import postgres_url

#: The other contracts know neither database nor vector store.
LEVELS = ["tests/integration", "tests/contracts/test_vector_store.py"]


def main() -> int:
    failed = run("SQLite, Qdrant in process", TEST_VECTOR_STORE="qdrant-memory")
    with postgres_url() as url:
        if url is None:
            say("PostgreSQL: skipped, no server answers and none is installed.")
        else:
            failed |= run("PostgreSQL, table", DATABASE_URL=url)
    if os.environ.get("QDRANT_URL"):
        failed |= run("SQLite, Qdrant server", TEST_VECTOR_STORE="qdrant")
    else:
        say("Qdrant server: skipped, QDRANT_URL is not set.")
    return failed


def run(name: str, **environment: str) -> int:
    say(f"== {name}")
    command = [sys.executable, "-m", "pytest", *LEVELS]
    return subprocess.run(command, env={**os.environ, **environment}).returncode  # noqa: S603


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
