"""Journeys of a reader who goes back on a question, asks again, and forgets."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import CURRICULUM, OUT_OF_DOMAIN, TELEWORK, ask, cited, wait_for_end


def shown_questions(page: Page) -> list[str]:
    return page.locator(".question-text").all_inner_texts()


def edit(page: Page, question: str, text: str) -> None:
    exchange = page.locator(".exchange", has_text=question)
    exchange.locator(".question").hover()
    exchange.get_by_role("button", name="Modifier").click()
    page.get_by_label("Question modifiée").fill(text)
    page.keyboard.press("Enter")


def test_edited_question_keeps_both_branches(page: Page) -> None:
    ask(page, CURRICULUM)
    wait_for_end(page)
    ask(page, OUT_OF_DOMAIN)
    wait_for_end(page)
    edited = "Qui peut lire le dossier d’un salarié ?"
    edit(page, CURRICULUM, edited)
    wait_for_end(page)
    assert shown_questions(page) == [edited]
    expect(page.locator(".prose")).to_contain_text("gestion du personnel")
    expect(page.locator(".versions")).to_contain_text("2 / 2")
    page.get_by_role("button", name="Version précédente").click()
    expect(page.locator(".exchange")).to_have_count(2)
    assert shown_questions(page) == [CURRICULUM, OUT_OF_DOMAIN]
    expect(page.get_by_role("button", name="Version suivante")).to_be_focused()
    page.reload()
    expect(page.locator(".versions").first).to_contain_text("1 / 2")
    assert shown_questions(page) == [CURRICULUM, OUT_OF_DOMAIN]


def test_other_tab_shows_what_its_next_question_follows(page: Page) -> None:
    ask(page, CURRICULUM)
    wait_for_end(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".question-text")).to_have_text(CURRICULUM)
    edit(page, CURRICULUM, "Qui peut lire le dossier d’un salarié ?")
    wait_for_end(page)
    other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(other.locator(".question-text")).to_have_text("Qui peut lire le dossier d’un salarié ?")


def test_answer_is_asked_for_again_beside_the_first(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(cited(["Je ne sais ", "pas."]), cited(["Je ne sais ", "toujours pas."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    page.get_by_role("button", name="Reposer").click()
    wait_for_end(page)
    expect(page.locator(".prose")).to_have_text("Je ne sais toujours pas.")
    expect(page.locator(".exchange")).to_have_count(1)
    page.get_by_role("button", name="Version précédente").click()
    expect(page.locator(".prose")).to_have_text("Je ne sais pas.")
