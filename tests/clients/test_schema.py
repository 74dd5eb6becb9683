"""schemathesis over the whole API as `/api/schema/` describes it, with keys and data, against a served site.

Twice: once with the ids of rows that are there, where every operation must have been done at least once, and once with
anything. No 5xx, and every answer as the schema says: its status, its media type and its form. `SCHEMA_CASES` is how
many cases each operation is given at most, beside those that schemathesis derives from the schema.
"""

import http.cookiejar
import json
import os
import re
import subprocess
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import ServedAgain
from tests.clients.environments import INSTALLED, SECONDS, python_with
from tests.e2e.conftest import LiveSite
from tests.servers.model_server import ModelReply

CASES = int(os.environ.get("SCHEMA_CASES", "60"))
#: Whether data was taken as the schema says is not asked: rules between fields are not in it.
LEFT_OUT = "positive_data_acceptance,negative_data_rejection"
#: What a body must hold for its operation to be done, whatever else it holds.
CALL = "call_1"
KNOWN = {"model": "guide", "deployment": "guide", "toolCallId": CALL}
OPEN = "Comment s’organise le télétravail ?"


@pytest.fixture(scope="module")
def busy_site(served_again: ServedAgain) -> LiveSite:
    """Without limits."""
    return served_again(RATE_LIMITS="False")


class Visitor:
    """A reader with a session of their own."""

    def __init__(self, site: LiveSite) -> None:
        self._site = site
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))
        self._asked = 0

    def headers(self) -> dict[str, str]:
        cookies = {cookie.name: str(cookie.value) for cookie in self._jar}
        held = "; ".join(f"{name}={value}" for name, value in cookies.items())
        return {"Cookie": held, "X-CSRFToken": cookies["csrftoken"]} if cookies else {}

    def _send(self, path: str, body: dict[str, Any] | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  # loopback
            f"{self._site.url}{path}", data, {"Content-Type": "application/json"}
        )
        for name, value in self.headers().items():
            if name != "Cookie":
                request.add_header(name, value)
        with self._opener.open(request) as response:
            return str(response.read().decode())

    def ask(self) -> dict[str, str]:
        """A question in a conversation of its own: the ids of both, and of the answer where there is one."""
        self._asked += 1
        said = self._send("/api/rag/chat", {"message": OPEN, "clientMessageId": f"schema-{self._asked}"})
        turn = re.search(r'"turnId": "([^"]+)"', said)
        assert turn is not None
        conversation = json.loads(self._send("/api/conversations/"))["results"][0]["id"]
        thread = json.loads(self._send(f"/api/conversations/{conversation}/messages/"))
        return {
            "conversation_id": conversation,
            "id": conversation,
            "turn_id": turn[1],
            "message_id": thread["messages"][-1]["id"],
        }

    def share(self, conversation: str) -> str:
        link = json.loads(self._send(f"/api/conversations/{conversation}/links", {}))
        return str(link["token"])


def _schema(site: LiveSite, folder: Path, turn_id: str) -> dict[str, Any]:
    """The schema, with what is there where a body that is sent names a deployment, a turn or a call."""
    path = folder / "schema.json"
    site.manage("spectacular", "--format", "openapi-json", "--file", str(path))
    schema: dict[str, Any] = json.loads(path.read_text().replace('"demo"', '"guide"'))
    for operations in schema["paths"].values():
        for operation in operations.values():
            for body in operation.get("requestBody", {}).get("content", {}).values():
                name = body["schema"].get("$ref", "").rpartition("/")[2]
                found = schema["components"]["schemas"][name] if name else body["schema"]
                for field, value in {**KNOWN, "turnId": turn_id}.items():
                    if field in found.get("properties", {}):
                        found["properties"][field] = {"enum": [value]}
    path.write_text(json.dumps(schema))
    return schema


def _configuration(session: dict[str, str], service: str, ids: dict[str, dict[str, Any]]) -> str:
    """`ids`: the path of each operation, by its name; those of the others by an empty one."""
    headers = {"^/api/(conversations|messages|rag)": session, "^/api/ui/": {"Authorization": f"Bearer {service}"}}
    lines = ["[parameters]", *_parameters(ids.get("", {}))]
    for name, own in ids.items():
        if name:
            lines += ["[[operations]]", f"include-operation-id = {json.dumps(name)}"]
            lines += ["[operations.parameters]", *_parameters(own)]
    for paths, sent in headers.items():
        lines += ["[[operations]]", f"include-path-regex = {json.dumps(paths)}"]
        lines += ["[operations.headers]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in sent.items()]
    return "\n".join(lines) + "\n"


def _parameters(ids: dict[str, Any]) -> list[str]:
    return [f'"path.{name}" = {json.dumps(value)}' for name, value in ids.items()]


def _rows(site: LiveSite, visitor: Visitor) -> dict[str, dict[str, Any]]:
    """What an operation that needs a state of its own is asked for, and under an empty name what the others are."""
    common = {**visitor.ask(), "slug": "guide"}
    unwanted, shared = visitor.ask(), visitor.ask()
    call = {"id": CALL, "name": "book_room", "arguments": '{"room": "B2"}'}
    site.model.script(ModelReply(tool_calls=[call]))
    waiting = visitor.ask()
    token = visitor.share(shared["conversation_id"])
    return {
        "": common,
        "conversations_destroy": {"id": unwanted["id"]},
        "conversation_unshare": {"conversation_id": shared["conversation_id"], "token": token},
        "turn_approvals_decide": {"turn_id": waiting["turn_id"]},
    }


def _statuses(report: Path) -> dict[str, Counter[int]]:
    """How often each operation answered with each status; what was sent to it with another method is not its own."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for line in report.read_text().splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for sent in recorder.get("interactions", {}).values():
            label, response = recorder["label"], sent["response"]
            if response is not None and label.startswith(f"{sent['request']['method']} "):
                found[label][response["status_code"]] += 1
    return found


@pytest.mark.timeout(SECONDS * 8)
@pytest.mark.parametrize("with_rows", [True, False], ids=["rows", "anything"])
def test_every_answer_is_as_the_schema_says(busy_site: LiveSite, tmp_path: Path, *, with_rows: bool) -> None:
    python = python_with("schemathesis", "schemathesis>=4.32,<5")
    service = busy_site.manage("issue_service_token", f"schema-{with_rows}", "--deployment", "guide").strip()
    visitor = Visitor(busy_site)
    ids = _rows(busy_site, visitor) if with_rows else {}
    turn_id = ids[""]["turn_id"] if with_rows else visitor.ask()["turn_id"]
    schema = _schema(busy_site, tmp_path, turn_id)
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(_configuration(visitor.headers(), service, ids))
    report = tmp_path / "report.ndjson"
    done = subprocess.run(  # noqa: S603  # a program installed for this
        [
            str(python.parent / "schemathesis"),
            "--config-file",
            str(configuration),
            "run",
            str(tmp_path / "schema.json"),
            *("--url", busy_site.url),
            *("--checks", "all", "--exclude-checks", LEFT_OUT),
            *("--phases", "examples,coverage,fuzzing"),
            *("--max-examples", str(CASES)),
            *("--suppress-health-check", "all"),
            *("--request-timeout", "30"),
            *("--report", "ndjson", "--report-ndjson-path", str(report)),
            "--continue-on-failure",
            "--no-shrink",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        check=False,
    )
    statuses = _statuses(report)
    total: Counter[int] = sum(statuses.values(), Counter())
    lines = [f"{name}: {dict(sorted(count.items()))}" for name, count in sorted(statuses.items())]
    named = "rows" if with_rows else "anything"
    told = [*lines, f"{total.total()} cases: {dict(sorted(total.items()))}", done.stdout]
    (INSTALLED / f"schema-{named}.txt").write_text("\n".join(told))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    operations = {f"{method.upper()} {path}" for path, found in schema["paths"].items() for method in found}
    assert set(statuses) == operations
    assert total.total() >= CASES * len(operations) / 3
    if with_rows:
        done_once = {name for name, count in statuses.items() if any(200 <= c < 400 for c in count)}
        assert done_once == operations
