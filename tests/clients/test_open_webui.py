"""Open WebUI, unchanged, in a browser: its tools, the sources as it shows them, and its housekeeping.

It is started without a network of its own.
"""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clients.environments import python_with
from tests.e2e.conftest import EXPECT_MS, START_SECONDS, LiveSite
from tests.servers.model_server import ModelReply
from tests.servers.ports import free_port

#: Its pages change from version to version.
PACKAGE = "open-webui==0.12.4"
KNOWN = "Combien de temps peut-on garder le CV d’un candidat non retenu ?"
OPEN = "Comment s’organise le télétravail et que rembourse l’accord aux salariés ?"
FOLLOW_UP = "Et le matériel ?"
#: How long its titles, tags and suggestions may take after an answer: rules answer them at once.
HOUSEKEEPING_MS = 6_000
ROWS = """\
import json
from chat.models import Message
from faqs.models import CachedResponse, UnansweredQuestion
found = [Message.objects.filter(role="user").order_by("pk").values_list("content", flat=True)]
found += [model.objects.values_list("question", flat=True) for model in (CachedResponse, UnansweredQuestion)]
print(json.dumps([list(texts) for texts in found]))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    return python_with("open_webui", PACKAGE)


@pytest.fixture(scope="module")
def open_webui(
    python: Path, live_site: LiveSite, secret: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("open-webui")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "DATA_DIR": str(folder / "data"),
        "WEBUI_AUTH": "False",
        "WEBUI_SECRET_KEY": "only-for-these-tests",
        "ENABLE_OLLAMA_API": "False",
        "OFFLINE_MODE": "True",
        "HF_HUB_OFFLINE": "1",
        "ANONYMIZED_TELEMETRY": "False",
        "DO_NOT_TRACK": "True",
        "OPENAI_API_BASE_URL": f"{live_site.url}/v1",
        "OPENAI_API_KEY": secret,
    }
    (folder / "data").mkdir()
    port = str(free_port())
    command = [str(python.parent / "open-webui"), "serve", "--host", "127.0.0.1", "--port", port]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # a program installed for this
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_served(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def _wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  # loopback
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"Open WebUI did not start: {log.read_text()[-3000:]}")


@pytest.fixture
def page(browser: Browser, open_webui: str) -> Iterator[Page]:
    context = browser.new_context(locale="fr-FR", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(EXPECT_MS)
    page.goto(open_webui)
    page.locator("#chat-input").wait_for()
    # What is new in this version.
    page.get_by_role("dialog").get_by_role("button").last.click()
    yield page
    context.close()


def _send(page: Page, text: str) -> None:
    page.locator("#chat-input").click()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def _rows(live_site: LiveSite) -> list[list[str]]:
    """What was asked, what the memory learned, and what is listed as unanswered."""
    rows: list[list[str]] = json.loads(live_site.manage("shell", "-c", ROWS).splitlines()[-1])
    return rows


def test_answers_sources_and_follow_up(page: Page, live_site: LiveSite) -> None:
    before = [len(rows) for rows in _rows(live_site)]
    _send(page, KNOWN)
    expect(page.get_by_text("deux ans après le dernier contact")).to_be_visible()
    # The mark in the text, and the list below it, which leads to the passage.
    expect(page.get_by_role("button", name="Conservation de")).to_be_visible()
    page.get_by_role("button", name="1 Source").click()
    expect(page.get_by_text(f"{live_site.url}/p/")).to_be_visible()
    page.wait_for_timeout(HOUSEKEEPING_MS)

    words = ["Le télétravail ", "est réglé [1] ", *["par l’accord "] * 20, "jusqu’au bout."]
    live_site.model.script(ModelReply(tokens=words, interval=0.2))
    _send(page, OPEN)
    expect(page.get_by_text("Le télétravail est réglé")).to_be_visible()
    assert not page.get_by_text("jusqu’au bout").count()
    expect(page.get_by_text("jusqu’au bout")).to_be_visible()
    _send(page, FOLLOW_UP)
    expect(page.get_by_role("button", name="1 Source")).to_have_count(3)

    page.wait_for_timeout(HOUSEKEEPING_MS)
    if shot := os.environ.get("OPEN_WEBUI_SCREENSHOT"):
        page.screenshot(path=shot)
    asked, learned, unanswered = [rows[count:] for rows, count in zip(_rows(live_site), before, strict=True)]
    assert asked == [KNOWN, OPEN, FOLLOW_UP]
    assert set(learned) | set(unanswered) <= set(asked)
    assert not any("### Task" in str(call.body) for call in live_site.model.calls)
