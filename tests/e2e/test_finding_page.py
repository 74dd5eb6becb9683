"""Finding conversations again: search with excerpts, pins, the keyboard, the side bar folded away, several deleted at
once; what to ask next; and the passage of a citation, on a card and in its document."""

from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import CURRICULUM, OUT_OF_DOMAIN, TELEWORK, ask, wait_for_end
from tests.servers.model_server import ModelReply

BADGE = "Où retirer son badge d’accès au bâtiment ?"


def ask_each(page: Page, *questions: str) -> None:
    """Each in a conversation of its own."""
    for question in questions:
        page.keyboard.press("Control+Shift+O")
        ask(page, question)
        expect(page.locator(".exchange")).to_have_count(1)
        expect(page.locator(".answer-foot .actions")).to_be_visible()
        wait_for_end(page)


def test_search_reads_what_was_said_and_is_walked_with_the_keyboard(page: Page) -> None:
    ask_each(page, CURRICULUM, BADGE)
    page.locator("#send").focus()
    page.keyboard.press("Control+K")
    expect(page.get_by_label("Rechercher dans les conversations")).to_be_focused()
    page.keyboard.type("DERNIER contact")
    found = page.locator(".conversation a")
    expect(found).to_have_count(1)
    expect(found.locator("time")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(found).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".question-text")).to_have_text(CURRICULUM)
    page.get_by_label("Rechercher dans les conversations").fill("introuvable")
    expect(page.locator("#conversations")).to_contain_text("Aucune conversation ne correspond.")


def test_pinned_conversation_stays_on_top(page: Page) -> None:
    ask_each(page, CURRICULUM, BADGE)
    titles = page.locator(".conversation-title")
    expect(titles.first).to_have_text(BADGE)
    page.locator(".conversation", has_text="garder le CV").hover()
    page.get_by_role("button", name="Épingler « Combien").click()
    expect(page.locator(".conversations h2").first).to_have_text("Épinglées")
    for _ in range(2):
        expect(page.locator(".conversations h2")).to_have_text(["Épinglées", "Aujourd’hui"])
        expect(titles.first).to_contain_text("garder le CV")
        page.reload()
    page.locator(".conversation", has_text="garder le CV").hover()
    page.get_by_role("button", name="Détacher « Combien").click()
    expect(page.locator(".conversations h2")).to_have_text(["Aujourd’hui"])


def test_several_conversations_are_deleted_at_once(page: Page) -> None:
    ask_each(page, CURRICULUM, BADGE, OUT_OF_DOMAIN)
    page.get_by_role("button", name="Choisir des conversations à supprimer").click()
    page.locator(".conversation", has_text="badge").get_by_role("checkbox").check()
    page.locator(".conversation", has_text="zxqv").get_by_role("checkbox").check()
    page.get_by_role("button", name="Supprimer (2)").click()
    dialog = page.get_by_role("dialog", name="Supprimer 2 conversations ?")
    dialog.get_by_role("button", name="Supprimer").click()
    expect(page.locator(".conversation")).to_have_count(1)
    expect(page.locator("#announcer")).to_have_text("2 conversations supprimées.")
    # The one that was open is gone: the page is that of a new one.
    expect(page.locator("#welcome")).to_be_visible()
    page.reload()
    expect(page.locator(".conversation-title")).to_contain_text(["garder le CV"])
    page.get_by_role("button", name="Choisir des conversations à supprimer").click()
    page.get_by_label("Toutes").check()
    page.get_by_role("button", name="Supprimer (1)").click()
    page.locator("#confirm").get_by_role("button", name="Supprimer").click()
    expect(page.locator(".conversation")).to_have_count(0)


def test_arrow_up_in_the_empty_field_edits_the_last_question(page: Page) -> None:
    ask_each(page, BADGE)
    page.get_by_label("Votre question").press("ArrowUp")
    edited = page.get_by_label("Question modifiée")
    expect(edited).to_be_focused()
    expect(edited).to_have_value(BADGE)
    page.keyboard.press("Escape")
    field = page.get_by_label("Votre question")
    field.fill("Un brouillon")
    field.press("ArrowUp")
    expect(edited).to_have_count(0)


def test_side_bar_is_folded_away_and_stays_so(page: Page, live_site: LiveSite) -> None:
    sidebar = page.locator("#sidebar")
    page.get_by_role("button", name="Replier la liste des conversations").click()
    expect(sidebar).to_be_hidden()
    page.goto(live_site.url)
    expect(page.get_by_label("Votre question")).to_be_visible()
    expect(sidebar).to_be_hidden()
    opening = page.get_by_role("button", name="Ouvrir la liste des conversations")
    expect(opening).to_have_attribute("aria-expanded", "false")
    opening.click()
    expect(sidebar).to_be_visible()
    page.get_by_role("button", name="Replier la liste des conversations").press("Enter")
    page.keyboard.press("Control+K")
    expect(page.get_by_label("Rechercher dans les conversations")).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 800})
    page.locator("#scroller").click()
    expect(sidebar).not_to_be_in_viewport()
    page.keyboard.press("Control+K")
    expect(page.get_by_label("Rechercher dans les conversations")).to_be_focused()
    expect(sidebar).to_be_in_viewport()


def test_citation_shows_its_passage_on_hover_and_focus(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(ModelReply(tokens=["Les frais sont remboursés ", "[1]", "."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    card, citation = page.get_by_role("tooltip"), page.locator(".prose a.citation")
    citation.hover()
    expect(card).to_contain_text("plages horaires")
    expect(citation).to_have_attribute("aria-describedby", "card")
    card.hover()
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Copier").focus()
    page.keyboard.press("Shift+Tab")
    while not citation.evaluate("link => link === document.activeElement"):
        page.keyboard.press("Shift+Tab")
    expect(card).to_be_visible()
    page.keyboard.press("Enter")
    expect(card).to_be_hidden()
    expect(page.locator("#passage")).to_be_visible()


def test_next_and_previous_source_from_the_passage(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(ModelReply(tokens=["Les frais sont remboursés ", "[1]", "."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    sources = page.locator("button.source")
    assert sources.count() > 1
    page.locator(".prose a.citation").click()
    following = page.get_by_role("button", name="Source suivante")
    expect(page.get_by_role("button", name="Source précédente")).to_be_disabled()
    following.press("Enter")
    expect(page.locator("#passage-number")).to_have_text("2")
    expect(following if following.is_enabled() else page.locator("#passage-title")).to_be_focused()
    page.get_by_role("button", name="Source précédente").click()
    expect(page.locator("#passage-number")).to_have_text("1")


def test_page_of_the_web_opens_at_the_words_of_the_passage(page: Page) -> None:
    addresses = page.evaluate(
        """async () => {
            const script = performance.getEntriesByType("resource").find((each) => each.name.includes("/passage."));
            const { atPassage } = await import(script.name);
            return [
                atPassage("https://a.org/p", "# Titre\\n\\nUn mot-clé, **deux** mots [ici](https://b.org)."),
                atPassage("https://a.org/p#ancre", "a b c d e f g h i j k l m n o p q r s t"),
                atPassage("https://a.org/p", "# Titre"),
            ];
        }"""
    )
    assert addresses == [
        "https://a.org/p#:~:text=Un%20mot%2Dcl%C3%A9%2C%20deux%20mots%20ici.",
        "https://a.org/p#ancre:~:text=a%20b%20c%20d%20e%20f%20g%20h,m%20n%20o%20p%20q%20r%20s%20t",
        "https://a.org/p",
    ]
