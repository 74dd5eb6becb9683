"""A test is skipped whose server is not on this machine."""

from collections.abc import Iterator

import pytest

from benchmarks.resilience.site import MissingServerError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    try:
        return (yield)
    except MissingServerError as missing:
        pytest.skip(str(missing))
