"""A refusal, a person, their answer, the death of the site before its mail: nothing lost, nothing twice; the next visitor."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, expect

from benchmarks.resilience.site import WebProcess
from tests.e2e.accessibility import violations
from tests.e2e.conftest import STAFF, STAFF_PASSWORD, visiting
from tests.e2e.test_chat_page import ask, wait_for_end
from tests.e2e.test_reading_page import copied
from tests.releases.keep import site_environment
from tests.servers.commands import python
from tests.servers.mail_server import MailServer
from tests.servers.of_the_run import migrated_sqlite
from tests.waiting import wait_until

QUESTION, ANSWER = "Peut-on fêter un mariage au jardin botanique ?", "Oui, sur réservation, de mai à septembre."
HOURS = "Du mardi au samedi ; une réponse sous deux jours."
PREPARE = """\
import sys
import django
django.setup()
from django.core.management import call_command
call_command("create_agent", "jardin", name="Jardin")
from agents.models import Deployment
Deployment.objects.update(config_overlay={"ask_a_person": True, "person_hours": sys.argv[1]})
call_command("add_faq", "jardin", question="Quand ouvre la serre ?", answer="À midi.")
call_command("createsuperuser", interactive=False, username=sys.argv[2], email="staff@example.org")
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[WebProcess, MailServer]]:
    database = tmp_path / "site.db"
    migrated_sqlite(database)
    with MailServer() as mail:
        environment = {
            **site_environment(tmp_path, f"sqlite:///{database}"),
            "DJANGO_SETTINGS_MODULE": "tests.servers.worker_settings",
            "EMAIL_URL": f"smtp://127.0.0.1:{mail.port}",
            "DJANGO_SUPERUSER_PASSWORD": STAFF_PASSWORD,
        }
        python("-c", PREPARE, HOURS, STAFF, environment=environment)
        process = WebProcess(environment, tmp_path / "serve.log", with_worker=True)
        process.start()
        yield process, mail
        process.stop()


def kill(site: WebProcess, database: Path) -> None:
    """The server and its workers at once; their leases are over."""
    for worker in psutil.Process(site.pid).children(recursive=True):
        worker.kill()
    site.kill()
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("UPDATE agents_job SET lease_expires_at = '2026-01-01' WHERE kind = 'help_mail'")


def test_a_person_answers_and_the_next_visitor_is_given_it(
    browser: Browser, site: tuple[WebProcess, MailServer], tmp_path: Path
) -> None:
    process, mail = site
    clipboard = ["clipboard-read", "clipboard-write"]
    with (
        visiting(browser, viewport={"width": 390, "height": 844}, permissions=clipboard) as visitor,
        visiting(browser) as desk,
    ):
        page, staff = visitor.new_page(), desk.new_page()
        page.goto(process.url)
        ask(page, QUESTION)
        wait_for_end(page)
        page.get_by_role("button", name="Demander à quelqu’un").press("Enter")
        form, card = page.get_by_role("form", name="Demander à quelqu’un"), page.locator(".help-card")
        expect(form.get_by_label("Votre adresse électronique")).to_be_focused()
        expect(form).to_contain_text(HOURS)
        assert violations(page, "asking a person") == []
        page.keyboard.type("lea@example.org")
        for key in ("Tab", "Space", "Tab", "Tab", "Enter"):
            page.keyboard.press(key)
        expect(card).to_be_focused()
        expect(page.locator("#announcer")).to_have_text("Demande envoyée.")
        for text in (" : en attente", "Une personne vous répondra ici, et par courriel.", HOURS):
            expect(card).to_contain_text(text)
        assert violations(page, "asked a person") == []

        mail.gate.clear()
        staff.goto(f"{process.url}/login/?next=/admin/")
        staff.locator("[name=login]").fill(STAFF)
        staff.locator("[name=password]").fill(STAFF_PASSWORD)
        staff.keyboard.press("Enter")
        staff.get_by_role("link", name="Répondre : Demandes à une personne").click()
        staff.get_by_role("link", name=QUESTION).click()
        staff.get_by_label("Votre réponse").fill(ANSWER)
        staff.get_by_role("button", name="Envoyer la réponse").click()
        expect(staff.get_by_text("Courriel à envoyer")).to_be_visible()
        wait_until(mail.is_asked.is_set)
        kill(process, tmp_path / "site.db")
        mail.gate.set()
        process.start()
        wait_until(lambda: mail.mails)

        page.reload()
        expect(card).to_contain_text(ANSWER)
        page.locator("#menu summary").click()
        page.get_by_role("button", name="Copier la conversation").click()
        expect(page.locator("#announcer")).to_have_text("Copié")
        for kind, text in copied(page).items():
            assert ANSWER in text, kind
        page.get_by_role("button", name="Reposer").click()
        expect(page.locator(".versions")).to_contain_text("2 / 2")
        for text in (f"À propos de « {QUESTION} »", ANSWER):
            expect(card).to_contain_text(text)
        staff.reload()
        expect(staff.get_by_text("Courriel envoyé")).to_be_visible()
        staff.get_by_role("button", name="Valider cette réponse").click()
        expect(staff.get_by_text("Prouvé")).to_be_visible()
        with visiting(browser) as next_visitor:
            page = next_visitor.new_page()
            page.goto(process.url)
            ask(page, QUESTION)
            expect(page.locator(".prose").last).to_contain_text(ANSWER)
    assert [each["To"] for each in mail.mails] == ["lea@example.org"]
