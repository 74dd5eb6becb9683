"""A deployment's colour in a browser: its policy lets it in, light and dark, and nothing is hard to read."""

from itertools import product

from playwright.sync_api import Browser

from tests.e2e.accessibility import THEMES, violations
from tests.e2e.conftest import LiveSite, troubles_of, visiting

SET = "from agents.models import Deployment; Deployment.objects.filter(slug='guide').update(accent='{}', notice='Gardé un an.', legal_url='https://www.example.org/')"
#: What a button is painted in, as a screen has it: whatever the style sheet calls it.
SHOWN = """e => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.fillStyle = getComputedStyle(e).backgroundColor;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


def test_page_wears_the_colour_of_its_deployment(browser: Browser, live_site: LiveSite) -> None:
    try:
        for accent, scheme in product(("#7a1fa2", "#ffd24a", "#000000"), THEMES):
            live_site.shell(SET.format(accent))
            with visiting(browser, color_scheme=scheme) as context:
                page = context.new_page()
                troubles = troubles_of(page)
                page.goto(live_site.url)
                page.locator("#question").fill("Bonjour")
                red, green, blue = page.locator("#send").evaluate(SHOWN)
                own = [int(accent[at : at + 2], 16) for at in (1, 3, 5)]
                is_own = max(abs(one - other) for one, other in zip((red, green, blue), own, strict=True)) <= 1
                # One that is dark enough is shown as it is; a lighter one keeps its hue.
                assert is_own == (scheme == "light" and accent != "#ffd24a"), (accent, scheme, red, green, blue)
                assert (red > green > blue) == (accent == "#ffd24a")
                assert violations(page, f"{accent}, {scheme}") == []
                assert troubles == []
    finally:
        live_site.shell(SET.format(""))
