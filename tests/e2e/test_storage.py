"""A reader whose question meets a locked database: it is kept, said so, and sent again by itself, on the page and in
the widget.
"""

from playwright.sync_api import BrowserContext, Page, expect

from tests.contracts.test_storage import locked
from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import ask
from tests.e2e.test_widget import KNOWN, Hosts, context, host, opened

__all__ = ["context", "host"]

KEPT = "Votre question est gardée"
ANSWER = "deux ans"


def test_question_on_the_page_waits_for_the_database(page: Page, live_site: LiveSite) -> None:
    for number in (1, 2):
        with locked(live_site):
            ask(page, KNOWN)
            expect(page.locator("#notice")).to_contain_text(KEPT)
            expect(page.locator(".question-text")).to_have_count(number)
        expect(page.locator(".prose")).to_have_count(number)
        expect(page.locator(".prose").last).to_contain_text(ANSWER)
        expect(page.locator("#notice")).to_be_hidden()
    page.reload()
    expect(page.locator(".question-text")).to_have_count(2)


def test_question_that_waits_can_be_taken_back(page: Page, live_site: LiveSite) -> None:
    with locked(live_site):
        ask(page, KNOWN)
        expect(page.locator("#notice")).to_contain_text(KEPT)
        page.locator("#notice").get_by_role("button").click()
        expect(page.locator("#question")).to_have_value(KNOWN)
    expect(page.locator(".question-text")).to_have_count(0)


def test_question_in_the_widget_waits_for_the_database(
    context: BrowserContext, host: Hosts, live_site: LiveSite
) -> None:
    page = context.new_page()
    page.goto(f"http://localhost:{host.listed}/fr.html")
    frame = opened(page, "Poser une question")
    expect(frame.locator("#close")).to_be_enabled()  # its script is there
    with locked(live_site):
        frame.locator("#question").fill(KNOWN)
        frame.locator("#question").press("Enter")
        expect(frame.locator("#notice")).to_contain_text(KEPT)
    expect(frame.locator(".prose")).to_contain_text(ANSWER)
    expect(frame.locator(".question-text")).to_have_count(1)
    expect(frame.locator("#notice")).not_to_contain_text(KEPT)
