"""The staff desk in a real browser, with its clicks counted: from what waits on the first page to its proof."""

from pathlib import Path

import pytest
from fpdf import FPDF
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import ask, wait_for_end

PREPARE = """\
from django.core.management import call_command
call_command("create_agent", "{slug}", name="{slug}")
call_command("add_faq", "{slug}", question="{question}", answer="{answer}")
"""


class Clicks:
    """Counts what a person clicks; typing is not counted."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, where: Locator) -> None:
        self.count += 1
        where.click()


@pytest.fixture
def click() -> Clicks:
    return Clicks()


def _waiting(admin_page: Page, address: str, name: str) -> Locator:
    """A link of this page, once a worker has seen to what it stands for."""
    link = admin_page.get_by_role("link", name=name)
    for _look in range(60):
        admin_page.goto(address)
        if link.count():
            break
        admin_page.wait_for_timeout(1_000)
    return link


def test_a_reported_answer_is_corrected_and_proven_in_three_clicks(
    page: Page, admin_page: Page, live_site: LiveSite, click: Clicks
) -> None:
    question, wrong, right = "Quand ferme la médiathèque ?", "À midi.", "À dix-neuf heures."
    live_site.shell(PREPARE.format(slug="mediatheque", question=question, answer=wrong))
    page.goto(f"{live_site.url}/d/mediatheque/")
    ask(page, question)
    wait_for_end(page)
    expect(page.locator(".prose").last).to_contain_text(wrong)
    page.get_by_role("button", name="Réponse à revoir").last.click()
    expect(page.get_by_text("Merci de votre avis.").first).to_be_attached()

    click(_waiting(admin_page, f"{live_site.url}/admin/", "Corriger"))
    click(admin_page.locator("tr", has_text=question).get_by_role("link", name="Corriger"))
    expect(admin_page.get_by_text(wrong).first).to_be_visible()
    admin_page.locator("[name=answer]").fill(right)
    click(admin_page.get_by_role("button", name="Enregistrer et poser à nouveau la question"))
    expect(admin_page.get_by_text("Prouvé")).to_be_visible()
    expect(admin_page.get_by_text(right).first).to_be_visible()
    expect(admin_page.get_by_text("Réglé")).to_be_visible()
    assert click.count <= 3

    page.goto(f"{live_site.url}/d/mediatheque/")
    ask(page, question)
    wait_for_end(page)
    expect(page.locator(".prose").last).to_contain_text(right)


def test_an_unanswered_question_is_answered_and_replayed_in_five_clicks(
    page: Page, admin_page: Page, live_site: LiveSite, click: Clicks
) -> None:
    question = "Peut-on louer un xylophone à la mairie ?"
    page.goto(f"{live_site.url}/d/guide/")
    for _twice in range(2):
        ask(page, question)
        wait_for_end(page)

    click(_waiting(admin_page, f"{live_site.url}/admin/", "Répondre"))
    admin_page.wait_for_url("**/questiongroup/**")
    # Questions of other journeys may have been grouped before this one.
    click(_waiting(admin_page, admin_page.url, question))
    click(admin_page.get_by_role("button", name="Rédiger une FAQ"))
    admin_page.locator("[name=answer]").fill("Oui, à l’accueil, le mardi.")
    click(admin_page.get_by_role("button", name="Enregistrer et approuver"))
    click(admin_page.get_by_role("button", name="Rejouer"))
    expect(admin_page.get_by_text("1 question sur 1 a maintenant une réponse")).to_be_visible()
    assert click.count <= 5


#: The journeys' model has no reply for the questions that a worker would have it write.
NO_QUESTIONS = (
    "from agents.models import RuntimeSettings as S; s = S.load(); s.values['generate_questions'] = False; s.save()"
)


def test_a_first_agent_goes_from_a_pdf_to_a_public_page_in_ten_clicks(
    page: Page, admin_page: Page, live_site: LiveSite, click: Clicks, tmp_path: Path
) -> None:
    live_site.shell(NO_QUESTIONS)
    pdf = FPDF()
    pdf.add_page()
    for style, size, text in (
        ("B", 18, "Règlement de la piscine"),
        ("B", 14, "Quel est le tarif d’entrée ?".replace("’", "'")),
        ("", 11, "L'entrée coûte quatre euros pour un adulte et deux euros pour un enfant."),
    ):
        pdf.set_font("Helvetica", style, size)
        pdf.multi_cell(0, 9, text, new_x="LMARGIN", new_y="NEXT")
    file = tmp_path / "piscine.pdf"
    pdf.output(str(file))

    admin_page.goto(f"{live_site.url}/admin/")
    click(admin_page.get_by_role("link", name="Guichets").first)
    click(admin_page.get_by_role("link", name="Ajouter un guichet"))
    admin_page.locator("[name=name]").fill("Piscine")
    with admin_page.expect_file_chooser() as chosen:
        click(admin_page.locator("[name=uploads]"))
    chosen.value.set_files(file)
    click(admin_page.get_by_role("button", name="Créer le guichet"))
    admin_page.locator("[name=question]").fill("Quel est le tarif d'entrée ?")
    click(admin_page.get_by_role("button", name="Essayer"))
    expect(admin_page.locator("#first-answer")).to_contain_text("quatre euros")
    assert page.goto(f"{live_site.url}/d/piscine/").status == 404  # type: ignore[union-attr]
    click(admin_page.get_by_role("button", name="Publier"))
    click(admin_page.get_by_role("link", name="/d/piscine/"))
    assert click.count <= 10

    page.goto(f"{live_site.url}/d/piscine/")
    ask(page, "Quel est le tarif d'entrée ?")
    wait_for_end(page)
    expect(page.locator(".prose").last).to_contain_text("quatre euros")


def test_threshold_is_tried_on_the_last_questions_before_it_is_saved(admin_page: Page, live_site: LiveSite) -> None:
    admin_page.goto(f"{live_site.url}/admin/agents/deployment/")
    admin_page.locator("#result_list tbody a").first.click()
    admin_page.locator("#find-setting").fill("AGE maximal")
    expect(admin_page.locator("#id_memory_max_age_days")).to_be_visible()
    admin_page.locator("#id_guard_rail_threshold").fill("0.9")
    with admin_page.expect_popup() as opened:
        admin_page.get_by_role("link", name="Et si… ? Ce que ce seuil").click()
    expect(opened.value.locator("#id_setting_guard_rail_threshold")).to_have_value("0.9")
