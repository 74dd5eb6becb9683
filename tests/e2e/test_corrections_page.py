"""Staff put a wrong answer right, in a real browser: it was remembered, and is corrected at the next question."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import ask, wait_for_end

TEXT = """\
# Piscine municipale

La piscine municipale accueille les nageurs toute l’année. Son bassin de vingt-cinq mètres est chauffé, ses vestiaires ont été
rénovés et les horaires de la piscine changent pendant les vacances scolaires. Les abonnements s’achètent à la caisse de la piscine.
"""
#: In one process: each command takes seconds to start.
PREPARE = """\
from django.core.management import call_command
from agents.models import Agent
call_command("create_agent", "natation", name="Piscine")
call_command("add_documents", "natation", "{document}")
Agent.objects.filter(slug="natation").update(settings={{"memory_learning": "valid"}})
"""
QUESTION = "Quels sont les horaires de la piscine municipale pendant les vacances ?"
#: How the tests' model begins whatever it writes.
WRONG = "D’après les documents fournis"
RIGHT = "La piscine ouvre de 7 heures à 22 heures."


@pytest.fixture
def pool(live_site: LiveSite, tmp_path: Path) -> str:
    """A desk of its own that keeps what its model writes at once; where its page is."""
    document = tmp_path / "piscine.md"
    document.write_text(TEXT)
    live_site.manage("shell", "--no-imports", "-c", PREPARE.format(document=document))
    return f"{live_site.url}/d/natation/"


def test_remembered_wrong_answer_is_corrected_once_and_right_from_then_on(
    page: Page, admin_page: Page, live_site: LiveSite, pool: str
) -> None:
    # Written by the model, then given from the memory.
    for _visitor in ("first", "second"):
        page.goto(pool)
        ask(page, QUESTION)
        wait_for_end(page)
        expect(page.locator(".prose").last).to_contain_text(WRONG)

    admin_page.goto(f"{live_site.url}/admin/chat/turn/")
    admin_page.locator("tr", has_text=QUESTION).first.locator("a").first.click()
    admin_page.get_by_role("link", name="Corriger").first.click()
    admin_page.locator("[name=answer]").fill(RIGHT)
    admin_page.get_by_role("button", name="Enregistrer et poser").click()
    expect(admin_page.get_by_text("Prouvé")).to_be_visible()

    page.goto(pool)
    ask(page, QUESTION)
    wait_for_end(page)
    expect(page.locator(".prose").last).to_contain_text(RIGHT)
    expect(page.locator(".prose").last).not_to_contain_text(WRONG)

    admin_page.goto(f"{live_site.url}/admin/faqs/cachedresponse/?q=vacances")
    row = admin_page.locator("tr", has_text=QUESTION)
    expect(row).to_contain_text("Obsolète")
    expect(row).to_contain_text("plus récente")
