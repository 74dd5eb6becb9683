"""A writing of questions that is killed anywhere keeps the budget to the call, loses no question and doubles none.

The experiments are in `tests/questions_lab.py`, a process of its own. By default every seventeenth write;
`CRASH_EVERY_BOUNDARY=1` tries them all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.contracts
#: As the lab has them.
PASSAGES, BUDGET = 6, 4


@pytest.mark.timeout(900)
def test_killed_writing_keeps_its_budget_and_loses_no_question() -> None:
    every = "1" if os.environ.get("CRASH_EVERY_BOUNDARY") else "17"
    ran = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.questions_lab", every],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["status"] for row in found] == [-9] * (len(found) - 1) + [0]
    assert {row["calls"] for row in found} > {0, BUDGET}
    for row in found:
        assert row["calls"] <= row["counted"] <= BUDGET, row
        assert row["calls_of_the_day"] <= row["counted_of_the_day"] <= BUDGET, row
        assert (row["written"], row["ended"], row["once"]) == (PASSAGES, "done", True), row
        # A killed call is asked again: at most as many more as were under way.
        assert PASSAGES <= row["all_calls"] <= row["all_counted"] <= PASSAGES + 1, row
