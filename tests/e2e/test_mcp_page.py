"""A real MCP server of the official SDK: staff add it in the admin and allow its tools, readers use them on the page."""

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import TELEWORK, ask, wait_for_end
from tests.e2e.test_tools_page import calling
from tests.servers.mcp_process import mcp_over_http
from tests.servers.model_server import Body, ModelReply

#: Prints the newest conversation: whether its thread is acceptable as it was stored, and its messages.
READ_THREAD = """
import json
from chat.thread.messages import repaired
from chat.models import Conversation
messages = list(Conversation.objects.latest("created_at").messages.order_by("id"))
fields = ("role", "content", "name", "tool_calls", "tool_call_id", "success")
rows = [{field: getattr(message, field) for field in fields} for message in messages]
print(json.dumps({"acceptable": repaired(messages) == messages, "messages": rows}))
"""


def run_action(page: Page, row: str, action: str) -> None:
    page.locator("tr", has_text=row).locator("[name=_selected_action]").check()
    page.locator("select[name=action]").select_option(action)
    page.locator("button[name=index]").click()


def add_source(page: Page, live_site: LiveSite, *, slug: str, address: str) -> None:
    """As staff do it: add the source, read its list, allow one of its tools."""
    page.goto(f"{live_site.url}/admin/tools_registry/toolsource/add/")
    page.locator("[name=name]").fill(f"Bibliothèque {slug}")
    page.locator("[name=slug]").fill(slug)
    page.locator("select[name=kind]").select_option("mcp_http", force=True)
    page.locator("[name=url]").fill(f"http://{address}/mcp")
    page.locator("[name=_save]").click()
    page.wait_for_url("**/toolsource/")
    run_action(page, slug, "refresh")
    # Read by the worker; the list asks again by itself.
    expect(page.locator("tr", has_text=slug).get_by_text("lue", exact=True)).to_be_visible()
    page.goto(f"{live_site.url}/admin/tools_registry/tooloverride/?q={slug}_count_books")
    run_action(page, f"{slug}_count_books", "activate")
    expect(page.get_by_text("1 outil modifié").first).to_be_visible()


def newest_thread(live_site: LiveSite) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(live_site.shell(READ_THREAD).splitlines()[-1])
    return found


def answer_from_tool(body: Body) -> ModelReply:
    """As a model does: the answer holds what the newest tool message says."""
    told = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "tool")
    return ModelReply(tokens=["Le rayon compte ", str(json.loads(told)["books"]), " livres."])


def test_tool_of_a_real_mcp_server_is_used_on_the_chat_page(admin_page: Page, page: Page, live_site: LiveSite) -> None:
    slug, model = "biblio", live_site.model
    name = f"{slug}_count_books"
    with mcp_over_http(live_site.mcp_port) as address:
        add_source(admin_page, live_site, slug=slug, address=address)
        before = len(model.calls)
        model.script(calling(name, '{"shelf": "polar"}'), answer_from_tool)
        ask(page, TELEWORK)
        wait_for_end(page)

    expect(page.locator(".tool.done")).to_contain_text("Outil « biblio count books » terminé")
    expect(page.locator(".prose")).to_have_text("Le rayon compte 50 livres.")
    offered = [tool["function"]["name"] for tool in model.calls[before].body["tools"]]
    assert name in offered
    assert f"{slug}_fail" not in offered, "staff did not allow it"

    # The next question carries the block; the model server refuses an incorrect one as the real one does.
    rewritten = "Quel jour est prévu pour les réunions d’équipe ?"
    model.script(ModelReply(tokens=[rewritten]), ModelReply(tokens=["Je ne sais pas."]))
    ask(page, "Et pour les réunions d’équipe, quel jour est prévu ?")
    expect(page.locator(".prose").last).to_have_text("Je ne sais pas.")
    wait_for_end(page)
    assert {call.status for call in model.calls[before:]} == {200}
    assert "tool" in [message["role"] for message in model.calls[-1].body["messages"]]

    thread = newest_thread(live_site)
    asked, request, told, answered, *rest = thread["messages"]
    assert thread["acceptable"]
    assert [m["role"] for m in (asked, request, told, answered)] == ["user", "assistant", "tool", "assistant"]
    assert [m["role"] for m in rest] == ["user", "assistant"]
    assert [call["id"] for call in request["tool_calls"]] == [told["tool_call_id"]] == ["call_1"]
    assert (told["name"], told["success"]) == (name, True)
    assert json.loads(told["content"]) == {"shelf": "polar", "books": 50}
    assert answered["content"] == "Le rayon compte 50 livres."
