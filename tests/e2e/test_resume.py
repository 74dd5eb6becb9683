"""Journeys through lost networks, two tabs and killed servers, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks.resilience.site import AGENT, Site
from tests.e2e.conftest import LiveSite, visiting
from tests.e2e.test_chat_page import CURRICULUM, TELEWORK, WORDS, ask, cited, wait_for_end
from tests.servers.model_server import ModelServer

#: A server is killed and started again, perhaps on a busy machine.
pytestmark = pytest.mark.timeout(600)
LIBRARY = "Comment réserver une salle de travail de la bibliothèque à l'accueil ?"

#: A browser behind a proxy that forgets `Upgrade`.
NO_SOCKETS = """window.WebSocket = class { static OPEN = 1; static CONNECTING = 0;
  constructor() { setTimeout(() => this.onclose?.({ code: 1006 })); } close() {} };"""


def words_of(page: Page) -> list[str]:
    return page.locator(".prose").last.inner_text().split()


def other_tab(page: Page) -> Page:
    """The same conversation, by the same visitor."""
    tab = page.context.new_page()
    tab.goto(page.url)
    return tab


def test_tabs_that_were_open_or_come_later_show_the_same_answer_as_it_comes(page: Page, live_site: LiveSite) -> None:
    ask(page, CURRICULUM)
    wait_for_end(page)
    open_before = other_tab(page)
    expect(open_before.locator(".prose")).to_contain_text("deux ans")
    live_site.model.script(cited([*WORDS[:100], "fin."], interval=0.05))
    ask(page, TELEWORK)
    expect(page.locator(".prose").last).to_contain_text("mot5")
    tabs = (open_before, other_tab(page))
    for tab in tabs:
        expect(tab.locator(".prose").last).to_contain_text("mot5 ")
        assert "fin." not in words_of(tab)
    for tab in tabs:
        wait_for_end(tab)
        assert words_of(tab) == [*"".join(WORDS[:100]).split(), "fin."]
        expect(tab.locator(".question-text")).to_have_count(2)


def test_proxy_that_passes_no_socket_costs_no_word(page: Page, live_site: LiveSite) -> None:
    page.add_init_script(NO_SOCKETS)
    page.reload()
    live_site.model.script(cited([*WORDS[:60], "fin."], interval=0.05))
    ask(page, TELEWORK)
    expect(page.locator(".prose")).to_contain_text("mot5 ")
    page.reload()
    wait_for_end(page)
    assert words_of(page) == [*"".join(WORDS[:60]).split(), "fin."]
    live_site.model.script(cited(WORDS, interval=0.05))
    ask(page, LIBRARY)
    expect(page.locator(".prose").last).to_contain_text("mot5 ")
    page.get_by_role("button", name="Arrêter la réponse").click()
    expect(page.locator(".answer-foot").last).to_contain_text("Réponse interrompue")
    expect(page.locator("#notice")).to_be_hidden()


def test_stop_in_one_tab_stops_the_answer_in_both(page: Page, live_site: LiveSite) -> None:
    gone = live_site.model.disconnects
    live_site.model.script(cited(WORDS, interval=0.05))
    ask(page, TELEWORK)
    expect(page.locator(".prose")).to_contain_text("mot5")
    second = other_tab(page)
    expect(second.locator(".prose")).to_contain_text("mot5 ")
    second.get_by_role("button", name="Arrêter la réponse").click()
    for tab in (page, second):
        wait_for_end(tab)
        expect(tab.locator(".answer-foot")).to_contain_text("Réponse interrompue")
    assert words_of(page) == words_of(second)
    assert live_site.model.wait_for_disconnects(gone + 1)


def test_reader_is_told_before_asking_that_the_network_is_gone(page: Page) -> None:
    page.context.set_offline(True)
    expect(page.locator("#notice")).to_contain_text("Vous êtes hors ligne")
    ask(page, CURRICULUM)
    expect(page.locator("#notice.calm")).to_contain_text("Connexion perdue")
    expect(page.locator(".question-text")).to_have_text(CURRICULUM)
    page.context.set_offline(False)
    expect(page.locator(".prose")).to_contain_text("deux ans")
    expect(page.locator("#notice")).to_be_hidden()


def test_alarm_of_a_server_that_was_away_goes_when_it_answers(page: Page) -> None:
    ask(page, CURRICULUM)
    wait_for_end(page)
    lists = re.compile(r"/api/conversations/\?")
    with page.expect_event("requestfailed", lambda request: bool(lists.search(request.url))):
        page.route(lists, lambda route: route.abort())
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    expect(page.locator("#notice")).to_be_hidden()
    page.get_by_role("searchbox").fill("candidat")
    expect(page.locator("#notice")).to_contain_text("Le serveur ne répond pas")
    page.unroute(lists)
    page.get_by_role("searchbox").fill("candidat non")
    expect(page.locator("#notice")).to_be_hidden()


# A server that dies


@pytest.fixture(scope="module")
def mortal() -> Iterator[tuple[Site, ModelServer]]:
    """A site of its own, which may be killed."""
    with ModelServer() as model, Site(model, constants={"TURN_LEASE_SECONDS": 6.0}) as site:
        yield site, model


@pytest.fixture
def mortal_page(browser: Browser, mortal: tuple[Site, ModelServer]) -> Iterator[Page]:
    site, _model = mortal
    with visiting(browser, viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{site.processes[0].url}/d/{AGENT}/")
        yield page


def test_question_of_a_killed_server_is_shown_interrupted_and_can_be_asked_again(
    mortal_page: Page, mortal: tuple[Site, ModelServer]
) -> None:
    site, model = mortal
    page = mortal_page
    model.script(cited(WORDS, interval=0.05), cited(["Je ne sais pas : ", "le lendemain."]))
    ask(page, LIBRARY)
    expect(page.locator(".prose")).to_contain_text("mot5 ")
    site.processes[0].kill()
    expect(page.locator("#notice")).to_contain_text("Connexion perdue")
    site.processes[0].start()
    expect(page.locator("#stop")).to_be_hidden()
    page.get_by_role("button", name="Reprendre la question", exact=True).click()
    expect(page.locator(".prose").last).to_contain_text("lendemain.")
    page.reload()
    expect(page.locator(".prose").last).to_contain_text("lendemain.")
    # The same turn went on: what its tools had done is not done twice, and no second question was asked.
    conversation = page.url.split("/c/")[1].strip("/").replace("-", "")
    turns = f"SELECT COUNT(*) FROM chat_turn WHERE conversation_id = '{conversation}'"  # noqa: S608
    assert site.query(turns) == [(1,)]


def test_question_sent_while_the_server_is_away_is_answered_once_it_is_back(
    mortal_page: Page, mortal: tuple[Site, ModelServer]
) -> None:
    site, model = mortal
    page = mortal_page
    ask(page, LIBRARY)
    wait_for_end(page)
    site.processes[0].kill()
    ask(page, LIBRARY)
    page.wait_for_timeout(500)
    site.processes[0].start()
    wait_for_end(page)
    expect(page.locator(".exchange")).to_have_count(2)
    assert site.query("SELECT COUNT(*) FROM chat_turn WHERE status = 'running'") == [(0,)]
