"""Tools on the chat page: their lines, and a person's approval, in a real browser against a served site."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import TELEWORK, ask, wait_for_end
from tests.servers.model_server import ModelReply


def calling(name: str, arguments: str) -> ModelReply:
    return ModelReply(tool_calls=[{"id": "call_1", "name": name, "arguments": arguments}])


def test_tools_show_their_lines_before_the_answer_also_after_a_reload(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(calling("free_rooms", '{"day": "2026-03-02"}'), ModelReply(tokens=["B2 est libre."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    for _reading in range(2):
        expect(page.locator(".tool.done")).to_contain_text("Outil « free rooms » terminé")
        expect(page.locator(".prose")).to_have_text("B2 est libre.")
        page.reload()


def test_reader_approves_a_tool_from_the_keyboard_after_a_reload(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(calling("book_room", '{"room": "B2"}'), ModelReply(tokens=["C’est réservé."]))
    ask(page, TELEWORK)
    expect(page.locator(".tool.awaiting")).to_contain_text("demande votre accord")
    expect(page.locator(".approval code")).to_have_text('{"room": "B2"}')
    page.reload()
    accept = page.get_by_role("button", name="Accepter")
    expect(accept).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".tool.done")).to_contain_text("book room")
    expect(page.locator(".prose")).to_have_text("C’est réservé.")
    wait_for_end(page)
