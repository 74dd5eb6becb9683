"""Promises of the documentation name their tests: each of those exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("document", ["architecture.md", "security.md"])
def test_each_test_that_a_promise_names_is_there(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    files = set(re.findall(r"`(tests/[\w/.-]+)`", text))
    assert named | files
    assert [name for name in sorted(named) if f"def {name}(" not in TESTS] == []
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []


def test_each_row_of_the_failure_table_names_a_test_or_says_that_none_does() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().split("## Failure modes")[1]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 15
    assert [row for row in rows if "`test_" not in row and "not by a test" not in row] == []
