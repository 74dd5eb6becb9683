"""The site and the browser of the journeys, and a key for programs."""

import pytest

from tests.e2e.conftest import LiveSite, browser, live_site

__all__ = ["browser", "live_site"]


@pytest.fixture(scope="session")
def secret(live_site: LiveSite) -> str:
    return live_site.manage("issue_api_key", "clients", "--deployment", "guide").strip()
