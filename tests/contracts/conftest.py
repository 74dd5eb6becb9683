"""A scripted model that listens, and no test whose server is not on this machine."""

from collections.abc import Iterator

import pytest

from benchmarks.resilience.site import MissingServerError
from tests.servers.model_server import ModelServer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    try:
        return (yield)
    except MissingServerError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running
