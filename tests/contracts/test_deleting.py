"""A conversation is deleted while everything else is done with it, on a served site: it is gone, and nobody meets a
500.
"""

import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx2
import pytest

from benchmarks.resilience.site import AGENT, Site, last_user_message, numbered
from tests.servers.model_server import ModelReply, ModelServer
from tests.waiting import in_threads, wait_until

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

ROUNDS = 25
#: Each request of a round begins somewhere within it, the deletion too.
SPREAD_SECONDS = 0.06
QUESTION = "Comment réserver une salle de travail de la bibliothèque à l'accueil ? Dossier {tag}."
#: What a conversation, or a turn, is referred to by.
TABLES = ("conversation", "turn", "message", "feedback", "toolround")
#: What others may be told of a conversation that goes while they ask for something.
EXPECTED = {200, 201, 204, 404, 409}
Frame = dict[str, Any]


def answered(body: Any) -> ModelReply:
    if "fails" in last_user_message(body):
        return ModelReply(status=400)
    return ModelReply(tokens=numbered("réponse", 6), interval=0.01)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    is_shared = request.param == "postgresql"
    with ModelServer(fallback=answered) as model, Site(model, shared=is_shared, RATE_LIMITS="False") as served:
        yield served


class Reader:
    """Somebody with several requests at once."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=90, trust_env=False)
        # Its cookies come with the page.
        self._http.get("/").raise_for_status()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.ends: Counter[str] = Counter()

    def open(self) -> str:
        return str(self.call("open", "POST", "/api/conversations/", {"deployment": AGENT})["id"])

    def call(self, what: str, method: str, path: str, data: Any = None) -> Any:
        answer = self._http.request(method, path, json=data, headers=self._headers())
        self.statuses[what, answer.status_code] += 1
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.json() if is_json else {}

    def stream(self, what: str, path: str, data: Any = None) -> list[Frame]:
        """The events of a turn; none where it was refused."""
        answer = self._http.post(path, json=data, headers=self._headers())
        self.statuses[what, answer.status_code] += 1
        if answer.status_code != 200:
            return []
        frames = [json.loads(line) for line in re.findall(r"^data: (.*)$", answer.text, re.M)]
        self.ends[str(frames[-1].get("status") or frames[-1].get("code"))] += 1
        return frames

    def ask(self, conversation_id: str, tag: str) -> list[Frame]:
        asked = {
            "conversationId": conversation_id,
            "message": QUESTION.format(tag=tag),
            "clientMessageId": str(uuid.uuid4()),
        }
        return self.stream("ask", "/api/rag/chat", asked)

    def _headers(self) -> dict[str, str]:
        return {"X-CSRFToken": self._http.cookies["csrftoken"]}


def everything_done_with(reader: Reader, conversation_id: str, answer_id: int, failed: str) -> list[Callable[[], Any]]:
    path = f"/api/conversations/{conversation_id}"
    verdict = {"verdict": "down", "reason": "incorrect", "comment": "Non."}
    rate = f"/api/messages/{answer_id}/feedback"
    return [
        lambda: reader.ask(conversation_id, "later"),
        lambda: reader.call("rate", "POST", rate, verdict),
        lambda: reader.call("rename", "PATCH", f"{path}/", {"title": "Autre"}),
        lambda: reader.stream("retry", f"/api/rag/turns/{failed}/retry"),
        lambda: reader.call("read", "GET", f"{path}/messages/"),
        lambda: reader.call("export", "GET", f"{path}/export?format=md"),
    ]


def race(reader: Reader, chance: random.Random) -> None:
    """One conversation with an answer and a question that failed, deleted while all of it is used."""
    conversation_id = reader.open()
    answer_id = reader.ask(conversation_id, "first")[-1]["messageId"]
    failed = reader.ask(conversation_id, "fails")[0]["turnId"]
    acts = everything_done_with(reader, conversation_id, answer_id, failed)

    def after(wait: float, act: Callable[[], Any]) -> None:
        time.sleep(wait)
        act()

    acts.append(lambda: reader.call("delete", "DELETE", f"/api/conversations/{conversation_id}/"))
    in_threads(*(partial(after, chance.uniform(0, SPREAD_SECONDS), act) for act in acts))


def test_conversation_in_use_is_deleted_and_nobody_meets_an_error_of_ours(site: Site) -> None:
    [process] = site.processes
    reader = Reader(process.url)
    chance = random.Random(14)  # noqa: S311  # a moment, not a secret
    for _round in range(ROUNDS):
        race(reader, chance)
    assert reader.statuses["delete", 204] == ROUNDS
    assert {status for _what, status in reader.statuses} <= EXPECTED, reader.statuses
    assert "internal_error" not in reader.ends
    # The last turns are stopped within `TURN_STOP_SECONDS`, and what they leave comes after them.
    wait_until(lambda: not left(site))
    assert "Traceback" not in site.logs()
    assert " ERROR " not in site.logs()


def left(site: Site) -> list[str]:
    """The tables with rows of any conversation."""
    counts = {name: f"SELECT count(*) FROM chat_{name}" for name in TABLES}  # noqa: S608  # our tables
    return [name for name, statement in counts.items() if site.query(statement)[0][0]]
