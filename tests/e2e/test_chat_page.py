"""Journeys of a visitor on the chat page, in a real browser against a served site."""

import re

from playwright.sync_api import Page, Route, WebSocketRoute, expect

from tests.e2e.conftest import LiveSite
from tests.servers.model_server import ModelReply

TELEWORK = "Que prévoit l’accord de télétravail pour les frais et le matériel ?"
CURRICULUM = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
OUT_OF_DOMAIN = "zxqv wkjh brrr pfft"
#: Of an answer that does not know: no passage has to vouch for it.
WORDS = ["Je ", "ne ", "sais ", "pas ", *(f"mot{n} " for n in range(400))]


def ask(page: Page, question: str) -> None:
    page.get_by_label("Votre question").fill(question)
    page.keyboard.press("Enter")


def wait_for_end(page: Page) -> None:
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator(".exchange").last).not_to_have_attribute("aria-busy", "true")


def open_row(page: Page, title: str) -> None:
    page.locator(".conversation", has_text=title).hover()


def cut_first_socket(page: Page, *, after_frames: int) -> list[str]:
    """Close the page's first socket when it has received so many frames; later ones live. Returns what was sent."""
    sent: list[str] = []
    received: list[str | bytes] = []

    def route(socket: WebSocketRoute) -> None:
        is_first = not sent
        server = socket.connect_to_server()

        def from_page(message: str | bytes) -> None:
            sent.append(str(message))
            if is_first and after_frames == 0:
                socket.close(code=1011)
            else:
                server.send(message)

        def from_server(message: str | bytes) -> None:
            received.append(message)
            if is_first and len(received) == after_frames:
                socket.close(code=1011)
            elif not is_first or len(received) < after_frames:
                socket.send(message)

        socket.on_message(from_page)
        server.on_message(from_server)

    page.route_web_socket(re.compile("/ws/chat/"), route)
    return sent


def cited(words: list[str], interval: float = 0.0) -> ModelReply:
    return ModelReply(tokens=words, interval=interval)


def test_streamed_answer_cites_a_passage_that_opens(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(cited(["Les **frais** ", "sont remboursés ", "[1]", "."], interval=0.05))
    ask(page, TELEWORK)
    wait_for_end(page)
    expect(page.locator(".prose strong")).to_have_text("frais")
    expect(page.locator(".provenance")).to_contain_text("Rédigée par")
    citation = page.locator(".prose a.citation")
    expect(citation).to_have_text("1")
    citation.click()
    expect(page.locator("#passage")).to_be_visible()
    expect(page.locator("#passage-text")).not_to_be_empty()
    expect(page.locator("#passage-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#passage")).to_be_hidden()
    expect(citation).to_be_focused()


def test_sources_that_are_not_cited_are_folded(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(cited(["Remboursés ", "[1]", "."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    expect(page.locator(".sources > ol .source")).to_have_count(1)
    expect(page.locator(".source-title").first).to_have_text("Conservation des candidatures › Télétravail")
    expect(page.locator(".source-place").first).to_contain_text("Document · lu le ")
    others = page.locator(".uncited .source")
    expect(others.first).to_be_hidden()
    page.get_by_text(re.compile(r"^\d autres passages$")).click()
    expect(others.first).to_be_visible()


def test_document_keeps_its_own_numbers_in_brackets(page: Page, live_site: LiveSite) -> None:
    written = page.evaluate(
        """async () => {
            const loaded = performance.getEntriesByType("resource").map((each) => each.name);
            const { renderInline } = await import(loaded.find((name) => name.includes("/markdown.")));
            const read = (numbers) => renderInline("Décret [12].", { turn: "t", numbers }).map((node) => node.textContent).join("");
            return [read(null), read(new Set())];
        }"""
    )
    assert written == ["Décret [12].", "Décret."]


def test_label_says_whose_answer_it_is_and_none_of_these_calls_the_model(page: Page, live_site: LiveSite) -> None:
    calls = len(live_site.model.calls)
    for question, label in (
        ("Bonsoir", "Formule de politesse"),
        ("Où retirer son badge d’accès au bâtiment ?", "Réponse validée par l’équipe"),
        (CURRICULUM, "Réponse validée du document"),
        (OUT_OF_DOMAIN, "Pas trouvé"),
    ):
        ask(page, question)
        wait_for_end(page)
        expect(page.locator(".provenance").last).to_have_text(label)
    assert len(live_site.model.calls) == calls
    expect(page.locator(".conversation")).to_have_count(1)
    page.reload()
    expect(page.locator(".question-text").first).to_have_text("Bonsoir")
    expect(page.locator(".exchange")).to_have_count(4)


def test_reader_who_is_asked_which_question_was_meant_chooses_it(page: Page, live_site: LiveSite) -> None:
    calls = len(live_site.model.calls)
    ask(page, "Combien coûte la carte de la piscine ?")
    wait_for_end(page)
    expect(page.locator(".prose .suggestion").last).to_have_text("Aucune : chercher dans les documents")
    expect(page.locator(".prose blockquote").first).to_be_visible()
    page.locator(".prose .suggestion", has_text="un retraité").click()
    expect(page.locator(".prose").last).to_contain_text("Neuf euros.")
    wait_for_end(page)
    expect(page.locator(".exchange")).to_have_count(2)
    assert len(live_site.model.calls) == calls


def test_new_desk_offers_questions_at_first_and_with_a_refusal(page: Page) -> None:
    offered = page.locator("#welcome .suggestion")
    expect(offered).to_have_count(6)
    ask(page, OUT_OF_DOMAIN)
    wait_for_end(page)
    expect(page.locator(".prose .suggestion")).to_have_count(3)
    page.reload()
    first = page.locator(".prose .suggestion").first
    question = first.inner_text()
    first.click()
    wait_for_end(page)
    expect(page.locator(".question-text").last).to_have_text(question)
    expect(page.locator(".provenance").last).to_have_class(re.compile("validated"))


def test_why_an_answer_stopped_is_still_said_after_a_reload(page: Page, live_site: LiveSite) -> None:
    live_site.model.script(
        ModelReply(tokens=["Les frais sont remboursés [1]. ", "Le"], finish_reason="length"),
        ModelReply(status=401, error_code="invalid_api_key"),
    )
    ask(page, TELEWORK)
    wait_for_end(page)
    ask(page, "Que prévoit l’accord de télétravail pour les réunions d’équipe ?")
    wait_for_end(page)
    for _reading in range(2):
        expect(page.locator(".answer-foot .trouble").first).to_contain_text("Réponse coupée")
        expect(page.locator(".answer-foot .trouble").last).to_contain_text("refuse la clé de ce service")
        page.reload()


def test_reader_is_told_how_the_question_was_read_and_asks_it_as_typed(page: Page) -> None:
    shouted = CURRICULUM.upper()
    ask(page, shouted)
    wait_for_end(page)
    line = page.locator(".read-as")
    expect(line).to_contain_text("Question lue ainsi")
    page.reload()
    expect(line).to_contain_text("non retenu ?")
    line.get_by_role("button", name="Poser telle quelle").click()
    wait_for_end(page)
    expect(line).to_have_count(0)
    expect(page.locator(".question-text")).to_have_text(shouted)
    expect(page.locator(".versions")).to_contain_text("2 / 2")


def test_conversation_is_renamed_in_place(page: Page) -> None:
    ask(page, CURRICULUM)
    wait_for_end(page)
    open_row(page, "Combien de temps")
    page.get_by_role("button", name=re.compile("^Renommer")).click()
    page.get_by_label("Titre de la conversation").fill("Durée des CV")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("Durée des CV")
    page.wait_for_load_state("networkidle")
    page.reload()
    expect(page.locator(".conversation a")).to_have_text("Durée des CV")


def test_lost_connection_in_the_middle_misses_nothing(page: Page, live_site: LiveSite) -> None:
    sent = cut_first_socket(page, after_frames=8)
    live_site.model.script(cited([*WORDS[:60], "fin."], interval=0.03))
    ask(page, TELEWORK)
    wait_for_end(page)
    assert page.locator(".prose").inner_text().split() == [*"".join(WORDS[:60]).split(), "fin."]
    assert ['"ask"' in frame for frame in sent] == [True, False]
    assert '"resume"' in sent[1]


def test_question_lost_with_its_connection_is_sent_again_under_the_same_id(page: Page) -> None:
    sent = cut_first_socket(page, after_frames=0)
    ask(page, CURRICULUM)
    wait_for_end(page)
    expect(page.locator(".prose")).to_contain_text("deux ans")
    assert len(sent) == 2
    assert sent[0] == sent[1]


def test_draft_and_theme_survive_a_reload(page: Page) -> None:
    page.get_by_label("Votre question").fill("Une question à moitié écrite")
    page.get_by_role("button", name="Thème sombre").click()
    page.reload()
    expect(page.get_by_label("Votre question")).to_have_value("Une question à moitié écrite")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_question_typed_before_the_script_is_there_is_not_lost(page: Page) -> None:
    held: list[Route] = []
    page.route(re.compile(r"/chat/page\.[^/]*js"), lambda route: held.append(route))
    page.reload(wait_until="commit")
    page.get_by_label("Votre question").fill(CURRICULUM)
    expect(page.locator("#send")).to_be_disabled()
    for route in held:
        route.continue_()
    page.locator("#send").click()
    expect(page.locator(".exchange").last).to_contain_text("deux ans")


def test_phone_width_has_no_horizontal_scroll(page: Page, live_site: LiveSite) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    live_site.model.script(cited(["| a | b |\n| - | - |\n| ", "x" * 200, " | y |\n\n`", "z" * 200, "` [1]"]))
    ask(page, TELEWORK)
    wait_for_end(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".prose a.citation").click()
    expect(page.locator("#passage")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ouvrir la liste des conversations").click()
    expect(page.locator(".conversation.current")).to_be_visible()
