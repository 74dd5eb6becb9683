"""The widget on a page of another site, in a browser: it asks and shows sources there, and nowhere it is not allowed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, Route, expect

from tests.e2e.conftest import EXPECT_MS, LiveSite

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>Host</title>
<body><h1>Host</h1><a href="#">link</a><script src="{site}/widget.js" data-key="{key}" async></script></body></html>"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """The browser's requests are no output of the tests."""


@contextmanager
def _served(folder: Path) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


@dataclass(frozen=True, slots=True)
class Hosts:
    """Ports of two other sites with the same pages, of which staff have listed one.

    By the name `localhost` they are foreign to the desk (127.0.0.1) as another domain is, and its frame may keep nothing.
    """

    listed: int
    other: int


@pytest.fixture(scope="module")
def host(live_site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("host")
    with _served(folder) as port, _served(folder) as other:
        allow = (
            "from agents.models import Deployment; d = Deployment.objects.get(slug='guide'); "
            f"d.allowed_origins = 'http://localhost:{port} http://127.0.0.1:{port}'; d.save(); print(d.public_key)"
        )
        key = live_site.manage("shell", "--no-imports", "-v", "0", "-c", allow).strip()
        for language in ("fr", "en"):
            page = PAGE.format(language=language, site=live_site.url, key=key)
            (folder / f"{language}.html").write_text(page, encoding="utf-8")
        yield Hosts(port, other)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="fr-FR")
    context.set_default_timeout(EXPECT_MS)
    yield context
    context.close()


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
    frame.locator("a.citation").first.click()
    expect(frame.locator("details blockquote").first).to_be_visible()
    assert context.cookies(live_site.url) == []
    assert troubles == []


def test_visitor_who_is_asked_which_question_was_meant_chooses_none(
    context: BrowserContext, host: Hosts
) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    frame.locator("#question").fill("Combien coûte la carte de la piscine ?")
    frame.get_by_role("button", name="Envoyer").click()
    options = frame.locator(".answer .suggestion")
    expect(options).to_have_count(3)
    expect(frame.locator(".answer blockquote").first).to_be_visible()
    options.last.click()
    expect(frame.locator(".answer").last).not_to_have_class("answer live")
    expect(frame.locator(".answer").last.locator(".suggestion")).to_have_count(0)


def test_source_is_shown_without_the_marks_of_its_markdown(
    context: BrowserContext, host: Hosts
) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    frame.locator("#question").fill("Que fait la commande archiver avec les anciens dossiers ?")
    frame.get_by_role("button", name="Envoyer").click()
    frame.locator("details summary").click()
    source = frame.locator("details li").first
    expect(source).to_contain_text("Que fait la commande archiver avec les anciens dossiers ?")
    expect(source.locator("blockquote code")).to_have_text("archiver")
    expect(source.locator("blockquote strong")).to_have_text("anciens")


def test_question_typed_before_the_script_is_there_is_not_lost(
    context: BrowserContext, host: Hosts
) -> None:
    held: list[Route] = []
    page = context.new_page()
    page.route(re.compile(r"/widget/frame\.[^/]*js"), lambda route: held.append(route))
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    frame.locator("#question").fill(KNOWN)
    expect(frame.get_by_role("button", name="Envoyer")).to_be_disabled()
    for route in held:
        route.continue_()
    frame.get_by_role("button", name="Envoyer").click()
    expect(frame.locator(".answer")).to_contain_text("deux ans")


def test_conversation_is_there_again_after_a_reload(context: BrowserContext, host: Hosts) -> None:
    """Where the browser lets the frame keep something: here the two sites differ by their port alone."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    frame.locator("#question").fill(KNOWN)
    frame.get_by_role("button", name="Envoyer").click()
    expect(frame.locator(".answer")).to_contain_text("deux ans")
    page.reload()
    frame = opened(page, "Poser une question")
    expect(frame.locator(".asked")).to_have_text(KNOWN)
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


def test_widget_fills_a_phone(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    expect(frame.locator("#question")).to_be_visible()
    box = page.locator("#repondant-frame").bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (360, 640)
    width = frame.locator("html").evaluate("html => html.scrollWidth")
    assert width <= 360
    frame.locator("#close").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_phone_can_close_a_frame_whose_script_has_not_come(
    context: BrowserContext, host: Hosts
) -> None:
    held: list[Route] = []
    page = context.new_page()
    page.route(re.compile(r"/widget/frame\.[^/]*js"), lambda route: held.append(route))
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    expect(frame.locator("#close")).to_be_disabled()
    page.get_by_role("button", name="Fermer l’aide").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()
    opened(page, "Poser une question")
    for route in held:
        route.continue_()
    frame.locator("#close").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_phone_can_close_a_refusal(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"http://localhost:{host.other}/fr.html")
    expect(opened(page, "Poser une question").locator(".closed")).to_be_visible()
    page.get_by_role("button", name="Fermer l’aide").click()
    expect(page.locator("#repondant-frame")).to_be_hidden()


def test_site_that_is_not_listed_shows_a_refusal(context: BrowserContext, host: Hosts) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.other}/fr.html")
    frame = opened(page, "Poser une question")
    expect(frame.locator(".closed")).to_be_visible()
    expect(frame.locator("#question")).to_have_count(0)


def test_browser_refuses_a_frame_that_lies_about_its_site(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    """A page of a site that is not listed frames the address that the listed one uses."""
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
