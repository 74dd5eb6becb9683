"""How answers are read: Markdown, long questions, code, copies; and what axe finds of them."""

import json
import re

from playwright.sync_api import Page, expect

from chat.rendering import render_answer
from tests.e2e.accessibility import violations
from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import CURRICULUM, OUT_OF_DOMAIN, TELEWORK, WORDS, ask, cited, wait_for_end
from tests.markdown_cases import HOSTILE, WRITTEN

#: A tree of elements, attributes and text, with neither the blanks between blocks nor the order of attributes.
TREE = """
const tree = (node) => {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  const children = [];
  for (const child of [...node.childNodes].map(tree)) {
    if (typeof child === "string" && typeof children.at(-1) === "string") children[children.length - 1] += child;
    else children.push(child);
  }
  const isBlock = !["A", "CODE", "SPAN", "EM", "STRONG", "S"].includes(node.tagName);
  const kept = children.map((each) => (isBlock && typeof each === "string" ? each.replace(/\\n$/, "") : each)).filter((each) => !(isBlock && typeof each === "string" && !each.replaceAll("\\n", "")));
  const attributes = [...(node.attributes ?? [])].map(({ name, value }) => `${name}=${value}`)
    .filter((each) => !(each.startsWith("rel=") && node.className === "citation")).sort();
  return [node.tagName ?? "", attributes, ...kept];
};
"""
#: What the page's script makes of each text while it is written, and of the server's HTML.
COMPARE = (
    """async (cases) => {"""
    + TREE
    + """
  const loaded = performance.getEntriesByType("resource").map((each) => each.name);
  const { StreamedMarkdown } = await import(loaded.find((name) => name.includes("/markdown.")));
  return cases.map(([text, html]) => {
    const streamed = document.createElement("div");
    new StreamedMarkdown(streamed).update(text, { turn: "t", numbers: new Set([1, 2]) });
    const given = document.createElement("template");
    given.innerHTML = html;
    const whole = document.createElement("div");
    whole.append(given.content);
    return [tree(streamed), tree(whole)];
  });
}"""
)


def served(markdown: str) -> str:
    return render_answer(markdown, turn_id="t", source_numbers={1, 2})


def test_script_writes_an_answer_as_the_server_does(page: Page) -> None:
    cases = [[text, served(text)] for text in WRITTEN.values()]
    found = page.evaluate(COMPARE, cases)
    differ = []
    for name, (script, server) in zip(WRITTEN, found, strict=True):
        one, other = (json.dumps(each, ensure_ascii=False) for each in (script, server))
        differ += [f"{name}\n  {one}\n  {other}"] if one != other else []
    assert not differ, "\n".join(differ)


def test_hostile_markdown_is_harmless_while_it_is_written(page: Page) -> None:
    allowed = {tag.upper() for tag in "p br hr h4 h5 h6 blockquote pre code em strong s sub sup mark".split()}
    allowed |= {tag.upper() for tag in "ul ol li a table thead tbody tr th td div span".split()}
    seen: list[list[str]] = page.evaluate(
        """async (texts) => {
          const loaded = performance.getEntriesByType("resource").map((each) => each.name);
          const { StreamedMarkdown } = await import(loaded.find((name) => name.includes("/markdown.")));
          return texts.map((text) => {
            const streamed = document.createElement("div");
            new StreamedMarkdown(streamed).update(text, { turn: "t", numbers: new Set([1, 2]) });
            return [...streamed.querySelectorAll("*")].flatMap((each) => [each.tagName, ...[...each.attributes].map(
              ({ name, value }) => `${name}=${value}`)]);
          });
        }""",
        [*HOSTILE, *(f"{one}\n\n{other}" for one, other in zip(HOSTILE, HOSTILE[1:], strict=False))],
    )
    for found in seen:
        for each in found:
            name, is_attribute, value = each.partition("=")
            if not is_attribute:
                assert name in allowed
                continue
            assert name in set("href title target class data-n rel start dir tabindex align".split()), each
            if name == "href":
                assert value.lower().startswith(("https://", "http://", "mailto:", "#source-")), each


#: All that an answer may be made of.
RICH = "\n\n".join(
    [
        "Les frais sont remboursés [1]. Voir https://a.example/regles.",
        *(text for name, text in WRITTEN.items() if name != "directions"),
        "```python\n# Une ligne plus large que tous les écrans\nvaleur = " + "'x' + " * 60 + "1\n```",
        "| " + " | ".join(f"colonne {n}" for n in range(20)) + " |\n" + "|---" * 20 + "|\n" + "| valeur " * 20 + "|",
    ]
)


def enrich(live_site: LiveSite) -> None:
    """Make the last answer a rich one; the check would put a quotation in its place if a model had written it."""
    live_site.shell(
        f"from chat.models import Message; m = Message.objects.latest('pk'); m.content = {RICH!r}; m.save()"
    )


def ask_for_a_rich_answer(page: Page, live_site: LiveSite) -> None:
    ask(page, TELEWORK)
    wait_for_end(page)
    expect(page.locator(".answer-foot .actions")).to_have_count(1)
    enrich(live_site)
    page.reload()
    page.locator(".prose pre").first.wait_for()


def test_axe_finds_nothing_in_any_state_of_the_page(page: Page, live_site: LiveSite) -> None:
    found = violations(page, "page welcome")
    ask_for_a_rich_answer(page, live_site)
    found += violations(page, "page answered")
    page.locator(".prose a.citation").first.click()
    found += violations(page, "page passage")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Réponse à revoir").click()
    page.locator(".question").hover()
    page.get_by_role("button", name="Modifier").click()
    found += violations(page, "page forms")
    page.keyboard.press("Escape")
    ask(page, OUT_OF_DOMAIN)
    wait_for_end(page)
    page.locator("#menu summary").click()
    found += violations(page, "page menu")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 800})
    found += violations(page, "page phone")
    page.get_by_role("button", name="Ouvrir la liste des conversations").click()
    found += violations(page, "page drawer")
    assert not found, "\n".join(found)


def test_axe_finds_nothing_in_any_state_of_a_passages_page(page: Page, live_site: LiveSite) -> None:
    ask(page, TELEWORK)
    wait_for_end(page)
    passage = passage_of(page)
    page.goto(passage)
    found = violations(page, "passage")
    page.set_viewport_size({"width": 390, "height": 800})
    found += violations(page, "passage phone")
    page.set_viewport_size({"width": 640, "height": 400})
    found += violations(page, "passage zoomed")
    page.emulate_media(forced_colors="active")
    found += violations(page, "passage forced colours")
    page.emulate_media(forced_colors="none")
    page.goto(f"{page.url.partition('#')[0].rstrip('/')}x/")
    found += violations(page, "passage closed")
    assert not found, "\n".join(found)


def test_focus_is_never_lost(page: Page, live_site: LiveSite) -> None:
    field = page.get_by_label("Votre question")
    live_site.model.script(cited(WORDS, interval=0.05), cited(["Je ne sais pas."]), cited(["Je ne sais toujours pas."]))
    ask(page, TELEWORK)
    expect(page.locator(".prose")).to_contain_text("mot")
    stop = page.get_by_role("button", name="Arrêter la réponse")
    stop.focus()
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    wait_for_end(page)
    expect(field).to_be_focused()
    for name in ("Reprendre la question", "Reposer"):
        page.get_by_role("button", name=name).focus()
        page.keyboard.press("Enter")
        expect(field).to_be_focused()
        wait_for_end(page)
    page.get_by_label("Copier ou exporter").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copier la conversation").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Copier ou exporter")).to_be_focused()
    delete = page.get_by_role("button", name=re.compile("^Supprimer «"))
    delete.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(delete).to_be_focused()
    page.evaluate("document.activeElement.dataset.old = 'yes'")
    # The list is drawn anew a while after an answer, for its late title.
    expect(page.locator("[data-old]")).to_have_count(0)
    expect(delete).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_visible()
    page.locator("#confirm").get_by_role("button", name="Supprimer").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".conversation")).to_have_count(0)
    expect(field).to_be_focused()


def test_escape_closes_the_drawer_of_a_phone_wherever_the_focus_is(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    opener = page.get_by_role("button", name="Ouvrir la liste des conversations")
    drawer = page.locator("#sidebar")
    opener.click()
    page.get_by_label("Rechercher dans les conversations").focus()
    page.keyboard.press("Escape")
    expect(drawer).not_to_have_class(re.compile("open"))
    expect(opener).to_be_focused()
    opener.click()
    page.get_by_label("Rechercher dans les conversations").fill("stage")
    page.keyboard.press("Escape")
    expect(drawer).to_have_class(re.compile("open"))
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    expect(drawer).not_to_have_class(re.compile("open"))


def copied(page: Page) -> dict[str, str]:
    """What is on the clipboard, by type."""
    found: dict[str, str] = page.evaluate(
        """async () => {
          const [item] = await navigator.clipboard.read();
          return Object.fromEntries(await Promise.all(item.types.map(async (type) => [type, await (await item.getType(type)).text()])));
        }"""
    )
    return found


def passage_of(page: Page) -> str:
    """The address of the last answer's first source."""
    site, conversation = page.url.split("/d/")[0], page.url.rstrip("/").split("/c/")[1]
    messages = page.request.get(f"{site}/api/conversations/{conversation}/messages/").json()["messages"]
    return f"{site}/api/rag/turns/{messages[-1]['turn']['id']}/sources/1/page"


ASK = """async (message) => {
  const { csrfToken, conversation } = JSON.parse(document.getElementById("page-config").textContent);
  const body = JSON.stringify({ deployment: "guide", conversationId: conversation, message, clientMessageId: message });
  const answer = await fetch(`${location.pathname.split("/d/")[0]}/api/rag/chat`, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRFToken": csrfToken }, body });
  await answer.text();
  return answer.status;
}"""


def test_long_conversation_is_whole_although_its_beginning_is_drawn_last(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ask(page, CURRICULUM)
    wait_for_end(page)
    page.reload()
    for number in range(9):
        assert page.evaluate(ASK, f"{OUT_OF_DOMAIN} ({number})") == 200
    page.reload()
    expect(page.locator(".question").last).to_be_in_viewport()
    expect(page.locator(".answer-foot .actions")).to_have_count(10)
    page.locator("#menu summary").click()
    page.get_by_role("button", name="Copier la conversation").click()
    expect(page.locator("#announcer")).to_have_text("Copié")
    text = copied(page)["text/plain"]
    assert all(f"({number})" in text for number in range(9))
    page.locator(".question").first.scroll_into_view_if_needed()
    expect(page.locator(".prose").first).to_be_in_viewport()
    assert page.locator(".prose").first.inner_text().strip()


PYTHON = "```python\n# Deux fois\ndef double(n):\n    return 2 * n, 'x'\n```"


def test_code_has_its_language_colours_and_a_button_that_copies_it(page: Page, live_site: LiveSite) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    live_site.model.script(cited([f"Voici [1].\n\n{PYTHON}\n\nEt <b>."]))
    ask(page, TELEWORK)
    wait_for_end(page)
    page.reload()
    expect(page.locator(".code-head span")).to_have_text("python")
    assert page.locator(".code-word").all_inner_texts() == ["def", "return"]
    expect(page.locator(".code-comment")).to_have_text("# Deux fois")
    expect(page.locator(".code-string")).to_have_text("'x'")
    page.get_by_role("button", name="Copier le code").click()
    expect(page.locator(".code-head button")).to_have_text("Copié")
    assert copied(page)["text/plain"] == "\n".join(PYTHON.split("\n")[1:-1]) + "\n"


def test_answer_and_conversation_are_copied_as_rich_text_with_their_sources(page: Page, live_site: LiveSite) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    live_site.model.script(cited([f"Les **frais** [1].\n\n| a |\n|:-:|\n| b |\n\n{PYTHON}"]))
    ask(page, TELEWORK)
    wait_for_end(page)
    page.locator(".code-head").wait_for()
    page.get_by_role("button", name="Copier", exact=True).last.click()
    expect(page.locator(".answer-foot")).to_contain_text("Copié")
    found = copied(page)
    html = found["text/html"]
    for part in ("Les <strong>frais</strong> [1]", '<td align="center">b</td>', "<pre><code>", "[1] "):
        assert part in html, part
    for part in ("class=", "<button", "<span", "href"):
        assert part not in html
    assert html.count("[1] Conservation des candidatures › Télétravail") == 1
    assert "[2]" not in html
    assert found["text/plain"].startswith("Les **frais** [1].")
    assert "- [1] Conservation des candidatures › Télétravail" in found["text/plain"]
    ask(page, CURRICULUM)
    wait_for_end(page)
    page.get_by_label("Copier ou exporter").click()
    expect(page.locator("#menu")).to_contain_text("Toutes les données, pour un programme")
    page.get_by_role("button", name="Copier la conversation").click()
    expect(page.locator("#announcer")).to_have_text("Copié")
    expect(page.get_by_label("Copier ou exporter")).to_be_focused()
    html = copied(page)["text/html"]
    assert f"<h3>{TELEWORK}</h3>" in html
    assert f"<h3>{CURRICULUM}</h3>" in html
    assert "deux ans" in html


def test_streamed_answer_is_told_in_sentences_and_each_once(page: Page, live_site: LiveSite) -> None:
    page.evaluate(
        """() => {
          window.told = [];
          const announcer = document.getElementById("announcer");
          new MutationObserver(() => { if (announcer.textContent) window.told.push(announcer.textContent); })
            .observe(announcer, { childList: true, characterData: true, subtree: true });
        }"""
    )
    text = "Je ne sais pas **du tout**. Je ne sais pas non plus ! Et 3.5 km, je ne sais pas la [fin]. Sans point"
    live_site.model.script(cited(re.findall(r"\S+\s*", text), interval=0.25))
    ask(page, TELEWORK)
    wait_for_end(page)
    expect(page.locator("#announcer")).to_contain_text("Sans point")
    told: list[str] = page.evaluate("window.told")
    assert len(told) > 2
    assert told[0] == "Réponse\u00a0: Je ne sais pas du tout."
    assert all(re.search(r"[.!]$", each) for each in told[:-1])
    assert " ".join(told).replace("\u00a0", " ") == f"Réponse : {text.replace('**', '')}"


#: What has the focus, as a screen reader calls it.
FOCUSED = """() => {
  const held = document.activeElement;
  if (held === document.body) return "body";
  const label = held.getAttribute("aria-label") || held.labels?.[0]?.textContent || held.textContent;
  return `${held.localName} ${label.trim().replace(/\\s+/g, " ")}`;
}"""
MOST_TABS = 80


def tab_to(page: Page, name: str, *, key: str = "Tab") -> None:
    """Press Tab until what has the focus is called so (a pattern, its element first)."""
    seen = []
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        seen.append(page.evaluate(FOCUSED))
        if re.search(name, seen[-1]):
            return
    raise AssertionError(f"{name} is not reached: {seen}")


def test_whole_journey_is_made_with_the_keyboard_alone(page: Page, live_site: LiveSite) -> None:
    code = "```python\nvaleur = " + "'x' + " * 60 + "1\n```"
    live_site.model.script(
        cited([f"L’accord fixe les jours travaillés à domicile [1].\n\n{code}"]), cited(["Autrement [1]."])
    )
    page.evaluate("document.activeElement.blur()")
    tab_to(page, "Aller à la question")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Votre question")).to_be_focused()
    page.keyboard.type(TELEWORK)
    page.keyboard.press("Enter")
    wait_for_end(page)
    tab_to(page, "^a Source 1", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#passage-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#passage")).to_be_hidden()
    tab_to(page, "^pre ", key="Shift+Tab")
    tab_to(page, "^button Réponse à revoir")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    tab_to(page, "^textarea Précisez")
    page.keyboard.type("Trop long.")
    tab_to(page, "^button Envoyer")
    page.keyboard.press("Enter")
    expect(page.locator(".feedback")).to_contain_text("Merci de votre avis.")
    tab_to(page, "^button Modifier", key="Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.type(" Et les horaires ?")
    page.keyboard.press("Enter")
    wait_for_end(page)
    expect(page.locator(".versions")).to_contain_text("2 / 2")
    tab_to(page, "^button Version précédente", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".versions")).to_contain_text("1 / 2")
    tab_to(page, "^summary Copier ou exporter", key="Shift+Tab")
    page.keyboard.press("Enter")
    tab_to(page, "^button Copier la conversation")
    page.keyboard.press("Escape")
    tab_to(page, "^button Supprimer «", key="Shift+Tab")
    page.keyboard.press("Enter")
    tab_to(page, "^button Supprimer$")
    page.keyboard.press("Enter")
    expect(page.locator(".conversation")).to_have_count(0)
    tab_to(page, "^button Thème sombre", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    tab_to(page, "^button EN – English")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_twice_the_size_and_forced_colours_keep_everything_in_reach(page: Page, live_site: LiveSite) -> None:
    ask_for_a_rich_answer(page, live_site)
    # 1280 pixels at 200 %.
    page.set_viewport_size({"width": 640, "height": 400})
    found = violations(page, "page zoomed")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_label("Votre question")).to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(forced_colors="active")
    found += violations(page, "page forced colours")
    assert not found, "\n".join(found)
