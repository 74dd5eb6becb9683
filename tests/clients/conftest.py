"""The site and the browser of the journeys, a key for programs, and the same site served once more with other settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.e2e.conftest import LiveSite, _served, browser, live_site
from tests.servers.ports import free_port

__all__ = ["ServedAgain", "browser", "live_site"]

ServedAgain = Callable[..., LiveSite]


@pytest.fixture(scope="session")
def secret(live_site: LiveSite) -> str:
    return live_site.manage("issue_api_key", "clients", "--deployment", "guide").strip()


@pytest.fixture(scope="module")
def served_again(
    live_site: LiveSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedAgain]:
    """`served_again(RATE_LIMITS="False")`: the site, on another port, with other variables of its environment."""

    @contextmanager
    def serving(**changed: str) -> Iterator[LiveSite]:
        environment = {**live_site.environment, **changed}
        site = replace(live_site, url=f"http://127.0.0.1:{free_port()}", environment=environment)
        yield from _served(site, tmp_path_factory.mktemp("again") / "serve.log")

    with ExitStack() as stack:
        yield lambda **changed: stack.enter_context(serving(**changed))
