"""A crash at every boundary of what the tool loop stores, with parallel tools and a second writer.

The experiments are in `tests/crash_lab.py`, a process of its own. By default a sample of the boundaries;
`CRASH_EVERY_BOUNDARY=1` tries them all (some ten minutes).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contracts

#: By default: how many parallel tools, and every how many boundaries one is tried.
SAMPLE = {"kill": ["2:7", "3:29", "4:37", "5:41"], "raise": ["2:17", "3:29", "4:37", "5:41"]}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("manner", ["kill", "raise"])
def test_a_crash_anywhere_leaves_a_valid_thread_and_runs_no_tool_twice(manner: str) -> None:
    everything = os.environ.get("CRASH_EVERY_BOUNDARY")
    cases = ["2", "3", "4", "5"] if everything else SAMPLE[manner]
    ran = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.crash_lab", manner, *cases],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    whole = [row for row in found if row["status"] == 0]
    crashed = [row for row in found if row["status"] != 0]
    assert {row["status"] for row in crashed} == {-9 if manner == "kill" else 1}
    assert {row["tools"] for row in crashed} == {2, 3, 4, 5}
    for row in found:
        clean = ("orphans", "disorder", "duplicates", "second_runs", "writer", "again", "next")
        assert [row[name] for name in clean] == [0] * len(clean), row
        assert row["refused"] == "", row
        assert row["foreign"] == 3, row
    assert [(row["results"], row["runs"]) for row in whole] == [(n, 2 * n) for n in (2, 3, 4, 5)]
