"""What the documentation names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_test_that_the_failure_modes_name_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    promises = text.partition("## Failure modes")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", promises))
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 20
    assert named - set(re.findall(r"def (test_\w+)", code)) == set()
