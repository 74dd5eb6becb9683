"""Every view of the chat page as a picture, for somebody to look at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

SIZES = {"desk": (1280, 800), "wide": (1920, 1080), "phone": (390, 844)}
LANGUAGES = {"fr": "fr-FR", "en": "en-GB"}
SCHEMES = ("light", "dark")
SETTLED_MS = 1_200


@dataclass(frozen=True, slots=True)
class View:
    """A page to open, and what to do there before it is drawn."""

    name: str
    act: Callable[[Page], None]


def _nothing(page: Page) -> None:
    page.wait_for_timeout(SETTLED_MS)


def _ask(question: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.locator("#question").fill(question)
        page.keyboard.press("Enter")
        page.wait_for_selector(".answer-foot", timeout=60_000)
        page.wait_for_timeout(2 * SETTLED_MS)

    return act


def _source(page: Page) -> None:
    _ask("Comment réserver une salle de travail ?")(page)
    page.locator(".sources button, .sources a").first.click()
    page.wait_for_timeout(SETTLED_MS)


def _search(page: Page) -> None:
    _ask("Comment réserver une salle de travail ?")(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("salle")
    page.wait_for_timeout(SETTLED_MS)


VIEWS = (
    View("welcome", _nothing),
    View("answer", _ask("Comment réserver une salle de travail ?")),
    View("source", _source),
    View("refused", _ask("Quelle est la capitale de la Mongolie ?")),
    View("search", _search),
)


def _ways() -> Iterator[tuple[str, dict[str, Any]]]:
    for size, scheme, language in product(SIZES, SCHEMES, LANGUAGES):
        width, height = SIZES[size]
        how = {"color_scheme": scheme, "locale": LANGUAGES[language]}
        yield f"{size}-{scheme}-{language}", {**how, "viewport": {"width": width, "height": height}}
    yield "forced", {"forced_colors": "active", "viewport": {"width": 1280, "height": 800}}
    # A window of 1280 at 200 % has 640 pixels of its own.
    yield "zoomed", {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}


def draw_views(browser: Browser, port: int, folder: Path) -> None:
    """Files of the name view-size-scheme-language.png."""
    folder.mkdir(parents=True, exist_ok=True)
    for (way, how), view in product(list(_ways()), VIEWS):
        context = browser.new_context(**how)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/", timeout=60_000)
        view.act(page)
        page.screenshot(path=folder / f"{view.name}-{way}.png")
        context.close()
