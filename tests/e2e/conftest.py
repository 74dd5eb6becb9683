"""A whole site for a browser: its own data folder, a seeded agent, a scripted model server, `serve`, and Chromium.

Everything is started once a session and on loopback; each test gets a browser context of its own, so a visitor of its
own. The site runs the production settings and two tools of the tests, in a process of its own.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from benchmarks.resilience.site import WebProcess
from tests.releases.keep import site_environment
from tests.servers.commands import python
from tests.servers.model_server import ModelServer
from tests.servers.of_the_run import migrated_sqlite
from tests.servers.ports import free_port

#: Journeys go through a folder of the host; other served sites of the tests have a host to themselves.
BASE_PATH = "/bureau"
STAFF = "martine"
STAFF_PASSWORD = "only-for-these-tests"
#: Of every expectation and action; a first answer waits for the embedding model and the model's client to be loaded.
EXPECT_MS = 120_000
CHROMIUM_ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DOCUMENT = """\
# Conservation des candidatures

## Combien de temps peut-on garder le CV d’un candidat non retenu ?

Le CV d’un candidat non retenu peut être conservé deux ans après le dernier contact, sauf s’il en demande la suppression.

## Qui peut lire le dossier d’un salarié ?

Seules les personnes chargées de la gestion du personnel lisent le dossier d’un salarié.

## Que fait la commande `archiver` avec les **anciens** dossiers ?

La commande `archiver` range les **anciens** dossiers dans l’annexe [3] du registre.

# Télétravail

L’accord de télétravail fixe les jours travaillés à domicile, les plages horaires et le remboursement des frais. Chaque
salarié prévient son responsable une semaine avant le premier jour. Le matériel informatique est fourni par
l’entreprise et reste sa propriété. Les réunions d’équipe se tiennent le mardi matin dans les locaux.
"""
#: What staff have validated: question, answer, and whether it is a courtesy.
ANSWERS = [
    ("Bonsoir", "Bonsoir à vous !", True),
    ("Où retirer son badge d’accès au bâtiment ?", "À l’accueil.", False),
    ("Combien coûte la carte de la piscine pour un étudiant ?", "Douze euros.", False),
    ("Combien coûte la carte de la piscine pour un retraité ?", "Neuf euros.", False),
]
#: The commands that fill a site, in one process: each would take seconds to start.
PREPARE = """\
import json
import sys
import django
django.setup()
from django.core.management import call_command
call_command("create_agent", "guide", name="Guide du personnel")
from agents.models import Agent
# The worker would ask the journeys' model for questions, and take the replies that they have scripted.
Agent.objects.update(settings={"generate_questions": False})
call_command("add_documents", "guide", sys.argv[1])
for question, answer, courtesy in json.loads(sys.argv[2]):
    call_command("add_faq", "guide", question=question, answer=answer, courtesy=courtesy)
call_command("createsuperuser", interactive=False)
"""


@dataclass(frozen=True, slots=True)
class LiveSite:
    url: str
    model: ModelServer
    environment: dict[str, str]
    #: Where the site may reach an MCP server; nothing listens there until a test starts one.
    mcp_port: int

    def manage(self, *arguments: str) -> str:
        """What a command prints, run beside the served site."""
        return python("manage.py", *arguments, environment=self.environment).stdout

    def shell(self, code: str) -> str:
        """What some lines print, run beside the served site; each call takes seconds to start."""
        return self.manage("shell", "--no-imports", "-v", "0", "-c", code)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """What is stored, read beside the served site."""
        with closing(sqlite3.connect(self.environment["DATABASE_URL"].removeprefix("sqlite:///"), timeout=60)) as rows:
            return rows.execute(statement).fetchall()


@pytest.fixture(scope="session")
def live_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    folder = tmp_path_factory.mktemp("site")
    document = folder / "guide.md"
    document.write_text(DOCUMENT, encoding="utf-8")
    mcp_port = free_port()
    with ModelServer() as model, ExitStack() as stack:
        environment = {
            **site_environment(folder, f"sqlite:///{folder / 'site.db'}"),
            "DJANGO_SETTINGS_MODULE": "tests.e2e.site_settings",
            "BASE_PATH": BASE_PATH,
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "only-for-tests",
            "TOOL_INTERNAL_HOSTS": f"127.0.0.1:{mcp_port}",
            "DJANGO_SUPERUSER_USERNAME": STAFF,
            "DJANGO_SUPERUSER_PASSWORD": STAFF_PASSWORD,
            "DJANGO_SUPERUSER_EMAIL": "staff@example.org",
        }
        migrated_sqlite(folder / "site.db")
        python("-c", PREPARE, document, json.dumps(ANSWERS), environment=environment)
        process = WebProcess(environment, folder / "serve.log", with_worker=True)
        stack.callback(process.stop)
        process.start()
        yield LiveSite(process.url, model, environment, mcp_port)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    expect.set_options(timeout=EXPECT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS, headless=True)
        yield chromium
        chromium.close()


@contextmanager
def visiting(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    """A visitor of their own, who is as patient as the tests are."""
    context = browser.new_context(**{"locale": "fr-FR", **options})
    context.set_default_timeout(EXPECT_MS)
    try:
        yield context
    finally:
        context.close()


def troubles_of(page: Page) -> list[str]:
    """The page's script errors and breaches of its policy, as they come."""
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))
    page.on(
        "console", lambda message: troubles.append(message.text) if "Content Security Policy" in message.text else None
    )
    return troubles


@pytest.fixture
def page(browser: Browser, live_site: LiveSite) -> Iterator[Page]:
    """The home page for a new visitor; the test fails on a script error or a breach of the page's policy."""
    live_site.model.forget_replies()
    with visiting(browser, viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        troubles = troubles_of(page)
        page.goto(live_site.url)
        yield page
    assert not troubles


@pytest.fixture
def admin_page(browser: Browser, live_site: LiveSite) -> Iterator[Page]:
    """The admin, signed in; the test fails as that of a visitor's page does."""
    with visiting(browser, viewport={"width": 1600, "height": 1000}) as context:
        page = context.new_page()
        troubles = troubles_of(page)
        page.goto(f"{live_site.url}/login/?next=/admin/")
        page.locator("[name=login]").fill(STAFF)
        page.locator("[name=password]").fill(STAFF_PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{live_site.url}/admin/")
        yield page
    assert not troubles
