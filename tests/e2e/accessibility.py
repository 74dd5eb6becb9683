"""What axe finds of a page as it stands, in both themes: any violation, of any level; and targets that a finger misses."""

import os
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Frame, Page

SCREENSHOTS = os.environ.get("SCREENSHOTS", "")
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: WCAG 2.2, 2.5.8; links within a sentence are excepted there.
SMALLEST_TARGET = 24
#: Rules that axe leaves out unless they are asked for.
_RULES = {name: {"enabled": True} for name in ("target-size", "label-content-name-mismatch")}
_SMALL = """smallest => [...document.querySelectorAll("a[href], button, summary, input, textarea, select")].filter((each) => {
  const isInText = each.matches("p a, li a, td a, blockquote a") && !each.matches(".citation, .button, .foot-link");
  const isCovered = each.matches(".chip input, .hidden, [type=hidden], .skip");
  if (isInText || isCovered || !each.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  const { width, height } = each.getBoundingClientRect();
  return width + .01 < smallest || height + .01 < smallest;
}).map((each) => { const box = each.getBoundingClientRect(); return `${box.width}×${box.height}: ${each.outerHTML.slice(0, 150)}`; })"""


def violations(page: Page, state: str, *, frame: Frame | None = None) -> list[str]:
    """Of the page, or of a frame in it; a picture of each theme is left in `SCREENSHOTS`."""
    seen = frame or page
    found = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for violation in (
            Axe().run(seen, options={"resultTypes": ["violations"], "rules": _RULES}).response["violations"]
        ):
            for node in violation["nodes"]:
                said = " ".join(node["failureSummary"].split())[:200]
                found.append(f"{state}, {theme}: {violation['id']}: {node['html'][:160]}: {said}")
        if SCREENSHOTS:
            page.screenshot(path=Path(SCREENSHOTS) / f"{state.replace(' ', '-')}-{theme}.png")
    small = seen.evaluate(_SMALL, SMALLEST_TARGET)
    return found + [f"{state}: target of {each}" for each in small]
