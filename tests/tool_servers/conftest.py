"""The served site and the browser of the journeys."""

from tests.e2e.conftest import admin_page, browser, live_site, page

__all__ = ["admin_page", "browser", "live_site", "page"]
