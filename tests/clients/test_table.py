"""The table of `docs/api.md` is what was seen: last, after all programs were tried."""

import pytest

from tests.clients.table import HEAD, Rows, row
from tests.e2e.conftest import ROOT


def test_table_of_the_documentation_is_what_was_seen(table: Rows) -> None:
    if not table:
        pytest.fail("no program was tried in this run")
    documented = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines()
    seen = [*HEAD, *(row(name, found) for name, found in table.items())]
    assert not [line for line in seen if line not in documented]
