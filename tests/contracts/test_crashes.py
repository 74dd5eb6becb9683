"""Work that is killed anywhere is either not done or whole, and ends once somebody takes it up.

The experiments are in `tests/crash_lab.py`, a process of its own. By default a sample of the boundaries;
`CRASH_EVERY_BOUNDARY=1` tries them all (some ten minutes).
"""

import json
import os
from typing import Any

import pytest

from tests.servers.commands import python

pytestmark = pytest.mark.contracts

EVERYTHING = os.environ.get("CRASH_EVERY_BOUNDARY")
#: By default: how many parallel tools, and every how many boundaries one is tried.
SAMPLE = ["2:7", "3:29", "4:37", "5:41"]


def experiments(name: str, *arguments: str) -> list[dict[str, Any]]:
    ran = python("-m", "tests.crash_lab", name, *arguments)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def killed(name: str, every: int) -> list[dict[str, Any]]:
    """Every experiment was killed but the last, which ended."""
    found = experiments(name, "1" if EVERYTHING else str(every))
    assert [row["status"] for row in found] == [-9] * (len(found) - 1) + [0]
    return found


@pytest.mark.timeout(600)
def test_killed_correction_is_either_not_made_or_holds_everywhere() -> None:
    found = killed("correction", 7)
    assert {row["is_written"] for row in found} == {True, False}
    for row in found:
        expected = [["new"] if row["is_written"] else ["old"]] * 4
        assert [list(row["first"].values()), list(row["after"].values())] == [expected] * 2, row
        assert (row["retried"], row["settled"]) == (0, True), row


@pytest.mark.timeout(900)
def test_killed_import_ends_with_every_row_once() -> None:
    rows = killed("import", 11)
    assert {row["written"] for row in rows} == {0, 3, 6}
    for row in rows:
        assert (row["once"], row["settled"], row["retried"]) == (True, True, 0), row


@pytest.mark.timeout(900)
def test_a_crash_anywhere_leaves_a_valid_thread_and_runs_no_tool_twice() -> None:
    found = experiments("tools", *(["2", "3", "4", "5"] if EVERYTHING else SAMPLE))
    whole = [row for row in found if row["status"] == 0]
    crashed = [row for row in found if row["status"] != 0]
    assert {row["status"] for row in crashed} == {-9}
    assert {row["tools"] for row in crashed} == {2, 3, 4, 5}
    for row in found:
        clean = ("orphans", "disorder", "duplicates", "second_runs", "writer", "again", "next")
        assert [row[name] for name in clean] == [0] * len(clean), row
        assert (row["refused"], row["foreign"]) == ("", 3), row
    assert [(row["results"], row["runs"]) for row in whole] == [(n, 2 * n) for n in (2, 3, 4, 5)]
