"""A browser without JavaScript: what is asked by a form is answered as a page."""

from playwright.sync_api import Browser, expect

from tests.e2e.conftest import EXPECT_MS, LiveSite

KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"


def test_browser_without_javascript_asks_and_asks_again(browser: Browser, live_site: LiveSite) -> None:
    context = browser.new_context(locale="fr-FR", java_script_enabled=False)
    page = context.new_page()
    page.set_default_timeout(EXPECT_MS)
    page.goto(live_site.url)
    expect(page.locator("#composer")).to_be_hidden()
    for turn in (1, 2):
        page.get_by_role("textbox", name="Votre question").fill(KNOWN)
        page.get_by_role("button", name="Envoyer la question").click()
        expect(page.locator(".answer")).to_have_count(turn)
        expect(page.locator(".answer").last).to_contain_text("deux ans")
    page.locator("details summary").first.click()
    expect(page.locator("details blockquote").first).to_be_visible()
    context.close()
