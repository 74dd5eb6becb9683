"""GitHub's own document, as its package brings it: sent as a file, chosen from, permitted, called, edited, switched
off.

In the browser, as staff and a reader do it. Calls go to a stand-in on loopback.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.clients.environments import node_with
from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import TELEWORK, ask, wait_for_end
from tests.e2e.test_mcp_page import run_action
from tests.e2e.test_tools_page import calling
from tests.servers.model_server import ModelReply

CHOSEN = 50


class _GitHub(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = json.dumps([{"number": 7, "title": "The door squeaks"}]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def standing_in(port: int) -> Iterator[list[str]]:
    asked: list[str] = []
    handler = type("GitHub", (_GitHub,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    folder = node_with("github", "@octokit/openapi")
    file = folder / "node_modules/@octokit/openapi/generated/api.github.com.json"
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def seen(page: Page, name: str) -> None:
    """Keep what is on the page, where somebody wants to look at it."""
    if folder := os.environ.get("SCREENSHOTS"):
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=f"{folder}/{name}-{width}.png")
        page.set_viewport_size({"width": 1600, "height": 1000})


def test_fifty_operations_of_a_thousand_are_chosen_permitted_and_called(
    document: dict[str, Any], admin_page: Page, page: Page, live_site: LiveSite, tmp_path: Path
) -> None:
    sources = f"{live_site.url}/admin/tools_registry/toolsource/"
    host = f"127.0.0.1:{live_site.mcp_port}"
    document["servers"] = [{"url": f"http://{host}"}]
    file = tmp_path / "github.json"
    file.write_text(json.dumps(document, indent=2))
    assert file.stat().st_size > 10_000_000
    names = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if "issues" in operation["tags"]
    ][:CHOSEN]
    _read_and_permit(admin_page, f"{sources}add/", file, names, host)
    with standing_in(live_site.mcp_port) as asked:
        assert len(_read_an_issue(page, live_site, asked)) == CHOSEN
        _write_an_issue(page, live_site, asked)
    _edit_and_switch_off(admin_page, sources)
    before = len(live_site.model.calls)
    live_site.model.script(ModelReply(tokens=["Bien."]))
    page.goto(live_site.url)
    ask(page, TELEWORK)
    wait_for_end(page)
    assert _offered(live_site, before) == []


def _read_and_permit(page: Page, address: str, file: Path, names: list[str], host: str) -> None:
    page.goto(address)
    page.locator("[name=name]").fill("GitHub")
    page.locator("[name=slug]").fill("github")
    page.locator("select[name=kind]").select_option("openapi", force=True)
    page.locator("[name=document_file]").set_input_files(file)
    page.locator("[name=chosen]").fill("\n".join(names))
    page.locator("[name=allowed_hosts]").fill(host)
    page.locator("[name=_save]").click()
    page.wait_for_url("**/toolsource/")
    run_action(page, "GitHub", "refresh")
    # Read by the worker; the list asks again by itself.
    expect(page.get_by_text(f"0 / {CHOSEN}")).to_be_visible()
    seen(page, "sources")
    page.get_by_text(f"0 / {CHOSEN}").click()
    page.wait_for_url("**/tooloverride/?source*")
    seen(page, "tools")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("activate")
    page.locator("button[name=index]").click()
    expect(page.get_by_text(f"{CHOSEN} outils modifiés").first).to_be_visible()


def _read_an_issue(page: Page, site: LiveSite, asked: list[str]) -> list[str]:
    """Runs unasked. Returns the tools that the model was offered."""
    arguments = json.dumps({"owner": "library", "repo": "door", "state": "open"})
    site.model.script(calling("github_issues_list-for-repo", arguments), ModelReply(tokens=["La porte grince."]))
    before = len(site.model.calls)
    ask(page, TELEWORK)
    wait_for_end(page)
    expect(page.locator(".prose")).to_have_text("La porte grince.")
    assert asked == ["GET /repos/library/door/issues?state=open"]
    assert {call.status for call in site.model.calls[before:]} == {200}
    return _offered(site, before)


def _write_an_issue(page: Page, site: LiveSite, asked: list[str]) -> None:
    """Waits for its reader."""
    written = json.dumps({"owner": "library", "repo": "door", "body": {"title": "Oil it"}})
    site.model.script(calling("github_issues_create", written), ModelReply(tokens=["C’est noté."]))
    page.goto(site.url)
    ask(page, TELEWORK)
    expect(page.locator(".approval code")).to_have_text(written)
    assert len(asked) == 1
    page.get_by_role("button", name="Accepter").click()
    expect(page.locator(".prose").last).to_have_text("C’est noté.")
    assert asked[1:] == ["POST /repos/library/door/issues"]


def _edit_and_switch_off(page: Page, sources: str) -> None:
    page.goto(sources)
    page.get_by_role("link", name="GitHub", exact=True).click()
    expect(page.get_by_text("caractères et n’est pas montré ici")).to_be_visible()
    seen(page, "source")
    page.locator("[name=name]").fill("GitHub (arrêté)")
    page.locator("[name=is_active]").uncheck()
    page.locator("[name=_save]").click()
    page.wait_for_url("**/toolsource/")


def _offered(site: LiveSite, call: int) -> list[str]:
    tools = site.model.calls[call].body.get("tools", [])
    names = [tool["function"]["name"] for tool in tools]
    return [name for name in names if name.startswith("github_")]
