"""Every page that staff work on, in a browser: no serious violation that axe finds, nothing wider than the screen.

    SCREENSHOTS=folder pytest tests/e2e/test_staff_pages.py

looks at each width in both themes, and leaves what it saw in the folder.
"""

import json
import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.e2e.conftest import LiveSite
from tests.e2e.test_chat_page import ask, wait_for_end

SCREENSHOTS = os.environ.get("SCREENSHOTS", "")
#: Width and theme.
STATES = [(1280, "light"), (390, "dark")]
OTHER_STATES = [(1280, "dark"), (390, "light")]
#: By name; each placeholder is a key that `PREPARE` prints.
PAGES = {
    "front": "",
    "advanced": "advanced/",
    "first-agent": "agents/deployment/begin/",
    "figures": "chat/turn/figures/",
    "try": "chat/turn/try/",
    "turns": "chat/turn/",
    "turn": "chat/turn/{turn}/change/",
    "correct": "chat/turn/{turn}/correct/",
    "feedback": "chat/feedback/",
    "answers": "faqs/learnedresponse/",
    "memory": "faqs/cachedresponse/",
    "unanswered": "faqs/questiongroup/",
    "documents": "knowledge/document/",
    "builds": "knowledge/indexbuild/",
    "rebuild": "knowledge/indexbuild/rebuild/?agent={agent}",
    "agents": "agents/agent/",
    "agent": "agents/agent/{agent}/change/",
    "deployment": "agents/deployment/{deployment}/change/",
    "site": "agents/runtimesettings/1/change/",
    "golden-sets": "chat/goldenset/",
    "golden-set": "chat/goldenset/{set}/change/",
    "golden-runs": "chat/goldenrun/",
    "golden-run": "chat/goldenrun/{run}/change/",
    "what-if": "chat/goldenrun/what-if/",
    "what-if-run": "chat/goldenrun/{paper}/change/",
    "journal": "auditlog/logentry/",
    "journal-line": "auditlog/logentry/{line}/change/",
    "users": "auth/user/",
    "user": "auth/user/{user}/change/",
    "user-add": "auth/user/add/",
    "groups": "auth/group/",
    "group": "auth/group/{group}/change/",
}
PREPARE = """\
import json
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from agents.models import Deployment
from chat.models import Feedback, GoldenSet, Turn
from agents.jobs import carry_out
from chat.staff.golden import enqueue_run, enqueue_what_if, write_questions

deployment = Deployment.objects.get(slug="guide")
turn = Turn.objects.filter(messages__content="Où retirer son badge d’accès au bâtiment ?", status="done").first()
Feedback.objects.get_or_create(turn=turn, defaults={"verdict": "down", "comment": "Ce n’est plus vrai."})
golden = GoldenSet.objects.create(name="Questions de l’accueil", deployment=deployment)
rows = [{"question": "Où retirer son badge d’accès au bâtiment ?"}, {"question": "Quel est le numéro de la piscine ?", "contains": "01 23"}]
write_questions(golden, rows)
run = enqueue_run(golden)
paper = enqueue_what_if(deployment, {"direct_answers": False}, count=5)
for each in (run, paper):
    carry_out(each.job_id)
deployment.name = "Guide du personnel."
deployment.save()
user = User.objects.create(username="paul.lambert", is_staff=True)
# The last app of this site has no tables: the roles are made all the same.
group = Group.objects.get(name="Lecture")
user.groups.add(group)
found = {
    "turn": str(turn.pk), "agent": deployment.agent_id, "deployment": deployment.pk, "set": golden.pk,
    "run": run.pk, "paper": paper.pk, "user": user.pk,
    "group": group.pk, "line": LogEntry.objects.filter(action=1).first().pk,
}
print(json.dumps(found))
"""
#: Scripts draw lists of choices once the page is there.
DRAWN = "() => new Promise((drawn) => window.django?.jQuery ? django.jQuery(() => setTimeout(drawn)) : drawn())"
#: What stands further right than the screen, unless it scrolls within something that does not.
TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  return document.documentElement.scrollWidth > width
    ? [...document.querySelectorAll("body *")]
        .filter((each) => each.getBoundingClientRect().right > width + 1)
        .slice(0, 3).map((each) => each.outerHTML.slice(0, 120))
    : [];
}"""


@pytest.fixture
def addresses(page: Page, live_site: LiveSite) -> dict[str, str]:
    """Every page, once there is something to see on it."""
    page.goto(f"{live_site.url}/d/guide/")
    ask(page, "Où retirer son badge d’accès au bâtiment ?")
    wait_for_end(page)
    keys = json.loads(live_site.shell(PREPARE))
    return {name: f"{live_site.url}/admin/{path.format(**keys)}" for name, path in PAGES.items()}


def test_no_page_of_staff_has_a_serious_violation_or_is_wider_than_its_screen(
    admin_page: Page, addresses: dict[str, str]
) -> None:
    axe, found = Axe(), []
    for width, theme in STATES + (OTHER_STATES if SCREENSHOTS else []):
        admin_page.set_viewport_size({"width": width, "height": 900})
        admin_page.evaluate("theme => localStorage.setItem('_x_adminTheme', JSON.stringify(theme))", theme)
        for name, address in addresses.items():
            response = admin_page.goto(address)
            assert response is not None
            assert response.status == 200, f"{name}: {response.status}"
            assert admin_page.url == address, f"{name} leads to {admin_page.url}"
            admin_page.evaluate(DRAWN)
            state = f"{name} at {width}, {theme}"
            found += [f"{state}: too wide: {each}" for each in admin_page.evaluate(TOO_WIDE)]
            for violation in axe.run(admin_page).response["violations"]:
                if violation["impact"] in ("serious", "critical"):
                    where = violation["nodes"][0]["html"][:200]
                    found.append(f"{state}: {violation['id']}: {where}")
            if SCREENSHOTS:
                file = Path(SCREENSHOTS) / f"{name}-{width}-{theme}.png"
                admin_page.screenshot(path=file, full_page=True)
    assert not found, "\n".join(found)
