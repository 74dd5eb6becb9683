"""How soon the page is there, whether it moves while an answer is written, and what a long conversation costs it, in
Chromium.

    python -m benchmarks.page.run [--screenshots FOLDER]

A served site with a model that writes Markdown, 20 ms a token. What is measured is what the browser says of itself:
`paint`, `layout-shift` and `longtask` entries (W3C Paint Timing, Layout Instability, Long Tasks). With a folder it also
draws every view at three widths, in light and dark, in French and English, with forced colours and at 200 %, for
somebody to look at.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.page.views import draw_views
from benchmarks.streaming.run import site
from tests.e2e.conftest import CHROMIUM_ARGUMENTS
from tests.servers.model_server import ModelReply, ModelServer, tokenised

#: 100 questions and their answers.
EXCHANGES = 100
QUESTION = "Comment réserver une salle de travail de la bibliothèque ? (demande {})"
#: In a question: its answer comes token by token.
SLOWLY, TOKEN_SECONDS = "lentement", 0.02
#: What people get: paragraphs, a list, a table, code, citations.
ANSWER = """\
Les salles se réservent **à l'accueil** [1], pour deux heures au plus.

1. Présentez votre carte de lecteur ;
2. choisissez un créneau libre, du mardi au samedi ;
3. signez le registre, que l'accueil garde un an.

| jour | ouverture | fermeture |
| --- | --- | --- |
| mardi | 10 h | 18 h |
| samedi | 9 h | 17 h |

```python
def est_libre(salle: str, heure: int) -> bool:
    return (salle, heure) not in RESERVEES
```

Au-delà de deux heures, demandez une prolongation [1].
"""
#: A slow telephone (the aim's own figures): bytes a second, and milliseconds to and fro.
SLOW_BYTES, SLOW_LATENCY = 50_000, 400
WAIT_MS = 60_000
_WATCH = """
window.watched = {shifts: [], tasks: []};
new PerformanceObserver(list => list.getEntries().forEach(entry => watched.shifts.push(
  {value: entry.value, typed: entry.hadRecentInput, of: entry.sources.map(s => s.node && (s.node.className || s.node.nodeName))}))
).observe({type: "layout-shift", buffered: true});
new PerformanceObserver(list => list.getEntries().forEach(entry => watched.tasks.push(entry.duration))
).observe({type: "longtask", buffered: true});
"""
_IS_ANSWERED = """n => document.querySelectorAll(".exchange").length >= n && document.querySelector("#stop").hidden
  && !document.querySelector(".exchange[aria-busy=true]")"""
_ASK = """async ([conversationId, message, clientMessageId]) => {
  const {csrfToken} = JSON.parse(document.getElementById("page-config").textContent);
  const answer = await fetch("/api/rag/chat", {method: "POST", headers: {"Content-Type": "application/json", "X-CSRFToken": csrfToken},
    body: JSON.stringify({deployment: "bench", conversationId, message, clientMessageId})});
  await answer.text();
  if (!answer.ok) throw new Error(answer.status);
}"""
_PAINT = """() => Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1)"""


def ask_without_page(page: Page, number: int) -> None:
    """As a program does, with the visitor's cookies."""
    conversation = page.url.rstrip("/").rpartition("/")[2]
    page.evaluate(_ASK, [conversation, QUESTION.format(number), str(number)])


@contextmanager
def context_of(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="fr-FR", viewport={"width": 1280, "height": 800})
    context.add_init_script(_WATCH)
    try:
        yield context
    finally:
        context.close()


def first_paint(browser: Browser, url: str, *, is_slow: bool) -> int:
    """Milliseconds to the first content, with nothing in the browser's cache."""
    with context_of(browser) as context:
        page = context.new_page()
        if is_slow:
            network = context.new_cdp_session(page)
            speed = {"downloadThroughput": SLOW_BYTES, "uploadThroughput": SLOW_BYTES}
            network.send("Network.enable")
            network.send("Network.emulateNetworkConditions", {"offline": False, "latency": SLOW_LATENCY, **speed})
        page.goto(url, timeout=WAIT_MS)
        page.wait_for_function(f"({_PAINT})() > 0")
        return int(page.evaluate(_PAINT))


def ask_in(page: Page, question: str, answers: int) -> None:
    """Ask, and wait until so many answers are whole."""
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")
    page.wait_for_function(_IS_ANSWERED, arg=answers, timeout=WAIT_MS)
    page.wait_for_timeout(1_000)


def watched(page: Page) -> dict[str, Any]:
    found = page.evaluate("() => watched")
    moved = [shift for shift in found["shifts"] if not shift["typed"]]
    return {
        "layout_shift": round(sum(shift["value"] for shift in moved), 4),
        "moved": [shift["of"] for shift in moved][:5],
        "longest_task_ms": round(max(found["tasks"], default=0)),
        "tasks_over_50_ms": len(found["tasks"]),
    }


def reset(page: Page) -> None:
    page.evaluate("() => { watched.shifts.length = 0; watched.tasks.length = 0; }")


def measure(browser: Browser, port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/"
    figures: dict[str, Any] = {
        "first_paint_ms": [first_paint(browser, url, is_slow=False) for _time in range(5)],
        "first_paint_slow_ms": [first_paint(browser, url, is_slow=True) for _time in range(3)],
    }
    with context_of(browser) as context:
        page = context.new_page()
        page.goto(url)
        reset(page)
        ask_in(page, QUESTION.format(SLOWLY), 1)
        figures["streaming"] = watched(page)
        for number in range(1, EXCHANGES):
            ask_without_page(page, number)
        page.reload(timeout=WAIT_MS)
        page.wait_for_function("() => document.body.innerText.includes('(demande 99)')")
        page.wait_for_timeout(2_000)
        figures["long_opened"] = watched(page)
        reset(page)
        ask_in(page, QUESTION.format(SLOWLY), EXCHANGES + 1)
        figures["long_streaming"] = watched(page)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The page in a browser.")
    parser.add_argument("--screenshots", type=Path, help="a folder for pictures of every view")
    options = parser.parse_args(arguments)
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        print("No chromium on this machine: apt-get install chromium.", file=sys.stderr)
        return 2
    quick = ModelReply(tokens=tokenised(ANSWER))
    paced = ModelReply(tokens=tokenised(ANSWER), interval=TOKEN_SECONDS)
    # A long conversation is filled without waiting for each token.
    with ModelServer(fallback=lambda body: paced if SLOWLY in json.dumps(body) else quick) as model:
        with site(model.base_url) as (port, _process), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS, headless=True)
            print(json.dumps(measure(browser, port), indent=1))
            if options.screenshots:
                draw_views(browser, port, options.screenshots)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
