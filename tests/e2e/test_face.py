"""A deployment's colour in a browser: its policy lets it in, light and dark, and nothing is hard to read."""

from playwright.sync_api import Browser

from tests.e2e.accessibility import THEMES, violations
from tests.e2e.conftest import LiveSite, troubles_of, visiting

SET = "from agents.models import Deployment; Deployment.objects.filter(slug='guide').update(accent='{}', notice='Gardé un an.', legal_url='https://www.example.org/')"


def test_page_wears_the_colour_of_its_deployment(browser: Browser, live_site: LiveSite) -> None:
    live_site.shell(SET.format("#7a1fa2"))
    try:
        for scheme, colour in zip(THEMES, ("rgb(122, 31, 162)", None), strict=True):
            with visiting(browser, color_scheme=scheme) as context:
                page = context.new_page()
                troubles = troubles_of(page)
                page.goto(live_site.url)
                page.locator("#question").fill("Bonjour")
                found = page.locator("#send").evaluate("e => getComputedStyle(e).backgroundColor")
                assert found == colour or (colour is None and found != "rgb(132, 203, 201)")
                assert violations(page, f"own colour, {scheme}") == []
                assert troubles == []
    finally:
        live_site.shell(SET.format(""))
