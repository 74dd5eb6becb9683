"""An import that is killed anywhere is taken up where it was: every row exactly once, and each batch whole or not at
all.

The experiments are in `tests/import_lab.py`, a process of its own. By default every eleventh write;
`CRASH_EVERY_BOUNDARY=1` tries them all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contracts


@pytest.mark.timeout(900)
def test_killed_import_ends_with_every_row_once() -> None:
    every = "1" if os.environ.get("CRASH_EVERY_BOUNDARY") else "11"
    ran = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.import_lab", every],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["status"] for row in found] == [-9] * (len(found) - 1) + [0]
    # Killed before it began, it waits for its uploader still: nothing is written by itself.
    begun = [row for row in found if row["state"] != "planned"]
    assert {row["done"] for row in begun} >= {0, 3, 7}
    for row in begun:
        assert (row["ended"], row["counts"]) == ("done", [7, 6, 1, 0]), row
        assert (row["once"], row["settled"], row["retried"]) == (True, True, 0), row
        assert row["changes"] == [["De 9 heures à 20 heures.", "De 7 heures à 22 heures."]], row
