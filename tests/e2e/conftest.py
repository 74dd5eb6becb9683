"""A whole site for a browser: its own data folder, a seeded agent, a scripted model server, `serve`, and Chromium.

Everything is started once a session and on loopback; each test gets a browser context of its own, so a visitor of its
own. The site runs the production settings and two tools of the tests, in a process of its own.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.model_server import ModelServer

ROOT = Path(__file__).parents[2]
START_SECONDS = 90
#: A first answer waits for the embedding model and the model's client to be loaded.
EXPECT_MS = 15_000
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

# Télétravail

L’accord de télétravail fixe les jours travaillés à domicile, les plages horaires et le remboursement des frais. Chaque
salarié prévient son responsable une semaine avant le premier jour. Le matériel informatique est fourni par
l’entreprise et reste sa propriété. Les réunions d’équipe se tiennent le mardi matin dans les locaux.
"""


@dataclass(frozen=True, slots=True)
class LiveSite:
    url: str
    model: ModelServer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _manage(environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    done = subprocess.run(  # noqa: S603  # our own commands
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-3000:]}"


def _wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=2):  # noqa: S310  # loopback
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the site did not start: {log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def live_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    folder = tmp_path_factory.mktemp("site")
    document = folder / "guide.md"
    document.write_text(DOCUMENT, encoding="utf-8")
    with ModelServer() as model:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.e2e.site_settings",
            "DATA_DIR": str(folder / "data"),
            "DATABASE_URL": f"sqlite:///{folder / 'site.db'}",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "only-for-tests",
            "EMBEDDER": "local",
            "EMBEDDING_MODEL": "",
            "REDIS_URL": "",
            "QDRANT_URL": "",
            "CELERY_BROKER_URL": "filesystem://",
        }
        _manage(environment, "migrate", "--verbosity", "0")
        _manage(environment, "create_agent", "guide", "--name", "Guide du personnel")
        _manage(environment, "add_documents", "guide", str(document))
        yield from _served(environment, model, folder / "serve.log")


def _served(environment: dict[str, str], model: ModelServer, log: Path) -> Iterator[LiveSite]:
    port = _free_port()
    command = [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # our own command
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_served(url, process, log)
            yield LiveSite(url=url, model=model)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    expect.set_options(timeout=EXPECT_MS)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=executable, args=CHROMIUM_ARGUMENTS, headless=True
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, live_site: LiveSite) -> Iterator[Page]:
    """The home page for a new visitor; the test fails on a script error or a breach of the page's policy."""
    context = browser.new_context(locale="fr-FR", viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(EXPECT_MS)
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console",
        lambda message: (
            troubles.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    page.goto(live_site.url)
    yield page
    context.close()
    assert not troubles
