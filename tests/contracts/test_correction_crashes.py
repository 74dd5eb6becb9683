"""A correction that is killed anywhere: never both answers, never the old one once the new one is committed, never
none.

The experiments are in `tests/correction_lab.py`, a process of its own. By default every seventh write;
`CRASH_EVERY_BOUNDARY=1` tries them all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contracts


@pytest.mark.timeout(600)
def test_killed_correction_is_either_not_made_or_holds_everywhere() -> None:
    every = "1" if os.environ.get("CRASH_EVERY_BOUNDARY") else "7"
    ran = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.correction_lab", every],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["status"] for row in found] == [-9] * (len(found) - 1) + [0]
    assert {row["is_written"] for row in found} == {True, False}
    for row in found:
        expected = [["new"] if row["is_written"] else ["old"]] * 4
        assert [list(row["first"].values()), list(row["after"].values())] == [expected] * 2, row
        assert (row["retried"], row["settled"]) == (0, True), row
