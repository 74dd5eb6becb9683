"""The same suite on the other database and the other vector stores: `python -m tests.matrix`.

SQLite with the table store is `make test`. Here: PostgreSQL with the table, SQLite with Qdrant's in-process mode, and a
Qdrant server where `QDRANT_URL` is set. What is not there is said and left out.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.servers.postgres import postgres_url

#: The other contracts know neither database nor vector store.
LEVELS = ["tests/integration", "tests/contracts/test_vector_store.py"]


def main() -> int:
    with postgres_url() as url, ThreadPoolExecutor() as side_by_side:
        runs = [side_by_side.submit(run, TEST_VECTOR_STORE="qdrant-memory")]
        names = ["SQLite, Qdrant in process"]
        if url is None:
            say("PostgreSQL: skipped, no server answers and none is installed.")
        else:
            names.append("PostgreSQL, table")
            runs.append(side_by_side.submit(run, DATABASE_URL=url))
        if os.environ.get("QDRANT_URL"):
            names.append("SQLite, Qdrant server")
            runs.append(side_by_side.submit(run, TEST_VECTOR_STORE="qdrant"))
        else:
            say("Qdrant server: skipped, QDRANT_URL is not set.")
        failed = 0
        for name, finished in zip(names, runs, strict=True):
            done = finished.result()
            say(f"== {name}\n{done.stdout}")
            failed |= done.returncode
    return failed


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    """One run of the suite, with what it wrote: two at a time would mix their lines."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *LEVELS]
    return subprocess.run(  # noqa: S603  # fixed command
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
