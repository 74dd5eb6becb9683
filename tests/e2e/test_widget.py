"""The widget on a page of another site, in a browser: it asks and shows sources there, and nowhere it is not allowed."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, Route, TimeoutError, expect

from tests.e2e.accessibility import violations
from tests.e2e.conftest import LiveSite, troubles_of, visiting
from tests.e2e.test_chat_page import TELEWORK
from tests.servers.loopback import LoopbackServer, QuietHandler

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8">{head}<title>Host</title>
<body><main><h1>Host</h1><p><a href="#">link</a></p></main><script src="{site}/widget.js" data-key="{key}" {attributes} async></script></body></html>"""
#: A site that lets nothing in but the tag and its frame.
STRICT = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {site}/widget.js; frame-src {site}/widget/; require-trusted-types-for 'script'; trusted-types 'none'">"""
DRESSED = 'data-label="Une question ?" data-theme="dark" data-color="#ffd24a" data-side="left" data-lang="en"'


#: What other people's pages do to what stands in their body, and to themselves.
HOSTILE = {
    "empty elements hidden": "<style>div:empty, section:empty, :empty:not(path) { display: none }</style>",
    "body filtered": "<style>body { filter: grayscale(1); height: 3000px }</style>",
    "body moved": "<style>body { transform: translateX(0); height: 3000px }</style>",
    "body contained": "<style>body { contain: paint; will-change: transform; height: 3000px }</style>",
    "children without pointer": "<style>body > * { opacity: .99; pointer-events: none }</style>",
    "root without pointer": "<style>html { pointer-events: none } main { pointer-events: auto }</style>",
    "everything important": "<style>* { display: none !important } html, body, main { display: block !important }</style>",
    "everything invisible": "<style>html > *, body > * { visibility: hidden !important; opacity: 0 !important }</style>",
    "children clipped": "<style>html > *, body > * { position: relative; overflow: hidden; clip-path: inset(50%) }</style>",
    "grid": "<style>html { display: grid } body { display: grid } html > * { transform: translate(0) }</style>",
    "reset": "<style>* { all: unset !important } button { display: none !important }</style>",
    "zoomed": "<style>html { font-size: 62.5%; overflow-x: hidden; height: 100% } body { zoom: 1.2 }</style>",
}
#: How a page puts another in its place, as Turbo, htmx and Astro do; the last takes all that is not the body.
SWAPS = {
    "body replaced": "document.body.replaceWith(Object.assign(document.createElement('body'), {innerHTML: '<p>2</p>'}))",
    "body written": "document.body.innerHTML = '<p>2</p>'",
    "root replaced": "document.documentElement.replaceWith(document.createElement('html'))",
    "root emptied": "document.documentElement.replaceChildren(document.createElement('body'))",
}
#: Whether the button is where a visitor sees it and can press it.
REACHABLE = """() => { const host = document.querySelector('repondant-widget'); if (!host) return 'gone';
  const box = host.shadowRoot.querySelector('button').getBoundingClientRect();
  if (!box.width || box.bottom > innerHeight || box.right > innerWidth) return `not seen at ${box.y}`;
  return document.elementFromPoint(box.x + 20, box.y + 20) === host ? '' : 'cannot be pressed'; }"""


class _Pages(QuietHandler, SimpleHTTPRequestHandler):
    """The files of a folder."""


def _served(folder: Path) -> LoopbackServer:
    return LoopbackServer(partial(_Pages, directory=str(folder)))


@dataclass(frozen=True, slots=True)
class Hosts:
    """Ports of two other sites with the same pages, of which staff have listed one.

    By the name `localhost` they are foreign to the desk (127.0.0.1) as another domain is, and its frame may keep
    nothing.
    """

    listed: int
    other: int


@pytest.fixture(scope="module")
def host(live_site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("host")
    with _served(folder) as listed, _served(folder) as other:
        allow = (
            "from agents.models import Deployment; d = Deployment.objects.get(slug='guide'); "
            f"d.allowed_origins = 'http://localhost:{listed.port} http://127.0.0.1:{listed.port}'; d.save(); print(d.public_key)"
        )
        key = live_site.shell(allow).strip()
        strict = STRICT.format(site=live_site.url)
        for name, language, head, attributes in (
            ("fr", "fr", "", ""),
            ("en", "en", "", ""),
            ("strict", "fr", strict, ""),
            ("dressed", "fr", "", DRESSED),
        ):
            page = PAGE.format(language=language, site=live_site.url, key=key, head=head, attributes=attributes)
            (folder / f"{name}.html").write_text(page, encoding="utf-8")
        for name, style in HOSTILE.items():
            page = PAGE.format(language="fr", site=live_site.url, key=key, head=style, attributes="")
            (folder / f"{name}.html").write_text(page, encoding="utf-8")
        yield Hosts(listed.port, other.port)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with visiting(browser) as context:
        yield context


def opened(page: Page, name: str) -> FrameLocator:
    page.get_by_role("button", name=name).click()
    return page.frame_locator("#repondant-frame")


def test_visitor_of_an_allowed_site_asks_and_reads_the_source(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    field = frame.get_by_label("Votre question")
    expect(field).to_be_focused()
    field.fill(KNOWN)
    field.press("Enter")
    expect(frame.locator(".answer")).to_contain_text("deux ans")
    source = frame.locator("button.source").first
    source.click()
    expect(frame.locator("#passage-text")).to_contain_text("deux ans")
    page.keyboard.press("Escape")
    expect(frame.locator("#passage-text")).to_be_hidden()
    expect(source).to_be_focused()
    assert context.cookies(live_site.url) == []
    assert troubles == []


def test_conversation_is_there_again_after_a_reload(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    frame.locator("#question").fill(KNOWN)
    frame.get_by_role("button", name="Envoyer").click()
    expect(frame.locator(".answer")).to_contain_text("deux ans")
    page.reload()
    frame = opened(page, "Poser une question")
    expect(frame.locator(".question-text")).to_have_text(KNOWN)
    expect(frame.locator(".answer")).to_contain_text("deux ans")


def test_widget_is_opened_and_closed_by_keyboard(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/en.html")
    button = page.get_by_role("button", name="Ask a question")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.focus()
    page.keyboard.press("Enter")
    frame = page.frame_locator("#repondant-frame")
    expect(frame.locator("html")).to_have_attribute("lang", "en")
    expect(frame.locator("#question")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#repondant-frame")).to_be_hidden()
    expect(button).to_be_focused()


def on_a_phone(context: BrowserContext, port: int) -> tuple[Page, FrameLocator]:
    page = context.new_page()
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"http://localhost:{port}/fr.html")
    return page, opened(page, "Poser une question")


def test_widget_fills_a_phone(context: BrowserContext, host: Hosts) -> None:
    page, frame = on_a_phone(context, host.listed)
    expect(frame.locator("#question")).to_be_visible()
    box = page.locator("#repondant-frame").bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (360, 640)
    width = frame.locator("html").evaluate("html => html.scrollWidth")
    assert width <= 360
    frame.locator("#close").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_phone_can_close_a_frame_whose_script_has_not_come(context: BrowserContext, host: Hosts) -> None:
    held: list[Route] = []
    context.route(re.compile(r"/widget/frame\.[^/]*js"), lambda route: held.append(route))
    page, frame = on_a_phone(context, host.listed)
    expect(frame.locator("#close")).to_be_disabled()
    page.get_by_role("button", name="Fermer l’aide").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()
    opened(page, "Poser une question")
    for route in held:
        route.continue_()
    frame.locator("#close").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_site_that_is_not_listed_shows_a_refusal_that_a_phone_can_close(context: BrowserContext, host: Hosts) -> None:
    page, frame = on_a_phone(context, host.other)
    expect(frame.locator(".closed")).to_be_visible()
    expect(frame.locator("#question")).to_have_count(0)
    page.get_by_role("button", name="Fermer l’aide").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_browser_refuses_a_frame_that_lies_about_its_site(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/fr.html")
    opened(page, "Poser une question").locator("#question").wait_for()
    address = page.locator("#repondant-frame").get_attribute("src")
    other = context.new_page()
    refused: list[str] = []
    other.on("console", lambda message: refused.append(message.text))
    other.goto(f"http://localhost:{host.other}/fr.html")
    with other.expect_event("console", lambda message: "frame-ancestors" in message.text):
        other.evaluate(
            """address => {
                const frame = document.createElement("iframe");
                frame.referrerPolicy = "no-referrer";
                frame.src = address;
                document.body.append(frame);
            }""",
            address,
        )
    assert any(re.search(r"frame-ancestors", text) for text in refused)


def test_button_says_what_it_is_and_costs_little_until_it_is_pressed(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    page = context.new_page()
    sizes: dict[str, int] = {}
    page.on(
        "response",
        lambda response: (
            sizes.update({response.url: len(response.body())}) if response.url.startswith(live_site.url) else None
        ),
    )
    page.goto(f"http://localhost:{host.listed}/fr.html")
    expect(page.get_by_role("button").get_by_text("Poser une question")).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert list(sizes) == [f"{live_site.url}/widget.js"]
    assert sum(sizes.values()) <= 15_000


def test_tag_dresses_button_and_frame(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/dressed.html")
    button = page.get_by_role("button", name="Une question ?")
    colours = button.evaluate("e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]")
    assert colours == ["rgb(255, 210, 74)", "rgb(0, 0, 0)"]
    box = button.bounding_box()
    assert box is not None
    assert box["x"] == 20
    frame = opened(page, "Une question ?")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    expect(frame.locator("html")).to_have_attribute("lang", "en")
    expect(frame.locator("body")).to_have_css("background-color", "rgb(17, 25, 26)")


def seen_from(page: Page) -> str:
    """What is wrong with the button once the page has settled; empty where it can be pressed."""
    with suppress(TimeoutError):
        page.wait_for_function(f"() => ({REACHABLE})() === ''")
    return str(page.evaluate(REACHABLE))


def test_button_is_reached_on_other_peoples_pages(context: BrowserContext, host: Hosts) -> None:
    page, found = context.new_page(), {}
    for name in HOSTILE:
        page.goto(f"http://localhost:{host.listed}/{name}.html")
        page.locator("repondant-widget").wait_for(state="attached")
        found[name] = seen_from(page)
    for name, swap in SWAPS.items():
        page.goto(f"http://localhost:{host.listed}/fr.html")
        page.locator("repondant-widget").wait_for(state="attached")
        page.evaluate(swap)
        found[name] = seen_from(page)
    assert {name: trouble for name, trouble in found.items() if trouble} == {}


def test_widget_works_on_a_site_with_a_strict_policy(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    troubles = troubles_of(page)
    page.goto(f"http://localhost:{host.listed}/strict.html")
    frame = opened(page, "Poser une question")
    expect(frame.locator("#close")).to_be_enabled()  # its script is there
    frame.locator("#question").fill(KNOWN)
    frame.locator("#question").press("Enter")
    expect(frame.locator(".answer")).to_contain_text("deux ans")
    position = page.get_by_role("button").evaluate("e => getComputedStyle(e).position")
    assert position == "fixed"
    assert troubles == []


def test_axe_finds_nothing_in_any_state_of_the_widget(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/fr.html")
    page.get_by_role("button", name="Poser une question").wait_for()
    found = violations(page, "widget launcher")
    frame = opened(page, "Poser une question")
    field = frame.locator("#question")
    expect(field).to_be_focused()
    found += violations(page, "widget welcome", frame=page.frames[-1])
    field.fill(TELEWORK)
    field.press("Enter")
    expect(frame.get_by_text("Sources").first).to_be_visible()
    found += violations(page, "widget answered", frame=page.frames[-1])
    frame.locator("a.citation").first.click()
    found += violations(page, "widget sources", frame=page.frames[-1])
    page.keyboard.press("Escape")
    field.fill("Combien coûte la carte de la piscine ?")
    field.press("Enter")
    frame.locator(".answer .suggestion", has_text="retraité").wait_for()
    found += violations(page, "widget options", frame=page.frames[-1])
    page.set_viewport_size({"width": 390, "height": 800})
    found += violations(page, "widget phone", frame=page.frames[-1])
    page.goto(f"http://localhost:{host.other}/fr.html")
    expect(opened(page, "Poser une question").locator(".closed")).to_be_visible()
    found += violations(page, "widget refused", frame=page.frames[-1])
    assert not found, "\n".join(found)
