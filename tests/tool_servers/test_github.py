"""GitHub's own document, as its package brings it: sent as a file, chosen from, permitted, called, edited, switched off.

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
    document: dict[str, Any],
    admin_page: Page,
    page: Page,
    live_site: LiveSite,
    tmp_path: Path,
) -> None:
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

    admin = f"{live_site.url}/admin/tools_registry"
    admin_page.goto(f"{admin}/toolsource/add/")
    admin_page.locator("[name=name]").fill("GitHub")
    admin_page.locator("[name=slug]").fill("github")
    admin_page.locator("select[name=kind]").select_option("openapi", force=True)
    admin_page.locator("[name=document_file]").set_input_files(file)
    admin_page.locator("[name=chosen]").fill("\n".join(names))
    admin_page.locator("[name=allowed_hosts]").fill(host)
    admin_page.locator("[name=_save]").click()
    admin_page.wait_for_url("**/toolsource/")
    run_action(admin_page, "GitHub", "refresh")
    # Read by the worker; the list asks again by itself.
    expect(admin_page.get_by_text(f"0 / {CHOSEN}")).to_be_visible()
    seen(admin_page, "sources")

    admin_page.get_by_text(f"0 / {CHOSEN}").click()
    admin_page.wait_for_url("**/remotetool/?source*")
    seen(admin_page, "tools")
    admin_page.locator("#action-toggle").check()
    admin_page.locator("select[name=action]").select_option("allow")
    admin_page.locator("button[name=index]").click()
    expect(admin_page.get_by_text(f"{CHOSEN} outils modifiés").first).to_be_visible()

    reads, writes = "github_issues_list-for-repo", "github_issues_create"
    arguments = {"owner": "library", "repo": "door", "state": "open"}
    with standing_in(live_site.mcp_port) as asked:
        live_site.model.script(
            calling(reads, json.dumps(arguments)), ModelReply(tokens=["La porte grince."])
        )
        before = len(live_site.model.calls)
        ask(page, TELEWORK)
        wait_for_end(page)
        expect(page.locator(".prose")).to_have_text("La porte grince.")
        assert asked == ["GET /repos/library/door/issues?state=open"]
        offered = live_site.model.calls[before].body["tools"]
        assert {call.status for call in live_site.model.calls[before:]} == {200}
        assert len([t for t in offered if t["function"]["name"].startswith("github_")]) == CHOSEN

        written = json.dumps({"owner": "library", "repo": "door", "body": {"title": "Oil it"}})
        live_site.model.script(calling(writes, written), ModelReply(tokens=["C’est noté."]))
        page.goto(live_site.url)
        ask(page, TELEWORK)
        expect(page.locator(".approval code")).to_have_text(written)
        assert len(asked) == 1
        page.get_by_role("button", name="Accepter").click()
        expect(page.locator(".prose").last).to_have_text("C’est noté.")
        assert asked[1:] == ["POST /repos/library/door/issues"]

    # Edited and switched off.
    admin_page.goto(f"{admin}/toolsource/")
    admin_page.get_by_role("link", name="GitHub", exact=True).click()
    expect(admin_page.get_by_text("caractères et n’est pas montré ici")).to_be_visible()
    seen(admin_page, "source")
    admin_page.locator("[name=name]").fill("GitHub (arrêté)")
    admin_page.locator("[name=is_active]").uncheck()
    admin_page.locator("[name=_save]").click()
    admin_page.wait_for_url("**/toolsource/")
    before = len(live_site.model.calls)
    live_site.model.script(ModelReply(tokens=["Bien."]))
    page.goto(live_site.url)
    ask(page, TELEWORK)
    wait_for_end(page)
    offered = live_site.model.calls[before].body.get("tools", [])
    assert not [tool for tool in offered if tool["function"]["name"].startswith("github_")]
