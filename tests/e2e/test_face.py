"""A deployment's colour and logo in a browser: its policy lets them in, light and dark, and nothing is hard to read."""

import io
import re
from collections.abc import Callable

from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, expect

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


def test_logo_that_staff_upload_is_on_the_page(admin_page: Page, page: Page, live_site: LiveSite) -> None:
    drawn = io.BytesIO()
    Image.new("RGBA", (900, 300), "#7a1fa2").save(drawn, "PNG")
    logo: FilePayload = {"name": "l.png", "mimeType": "image/png", "buffer": drawn.getvalue()}
    admin_page.goto(f"{live_site.url}/admin/agents/deployment/?q=guide")
    admin_page.locator("th.field-name a, td.field-name a").first.click()
    address = admin_page.url
    try:
        _save(admin_page, lambda: admin_page.locator("[name=logo_file]").set_input_files([logo]))
        troubles = troubles_of(page)
        page.goto(f"{live_site.url}/d/guide/")
        for where in (".brand img", ".welcome img"):
            expect(page.locator(where)).to_be_visible()
            assert page.locator(where).evaluate("each => each.naturalWidth") == 480
        assert violations(page, "own logo") == []
        assert troubles == []
    finally:
        admin_page.goto(address)
        _save(admin_page, lambda: admin_page.locator("[name=without_logo]").check(force=True))


def _save(page: Page, fill: Callable[[], object]) -> None:
    page.locator("a").get_by_text("Apparence", exact=True).click()
    fill()
    page.locator("[name=_save]").click()
    page.wait_for_url(re.compile(r"/deployment/(\?.*)?$"))
