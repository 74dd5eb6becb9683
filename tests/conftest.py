"""Marks by folder, and what every level shares."""

import os
from pathlib import Path

import pytest

#: Chromium and servers are driven from threads of their own beside Django's ORM.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

LEVELS = ("unit", "integration", "contracts", "e2e")
DATA = Path(os.environ.get("REPONDANT_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        level = item.path.relative_to(Path(__file__).parent).parts[0]
        if level in LEVELS:
            item.add_marker(getattr(pytest.mark, level))


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data that lies beside the project."""
    if not DATA.is_dir():
        pytest.skip(f"the real data is not at {DATA} (set REPONDANT_DATA)")
    return DATA
