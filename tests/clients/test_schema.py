"""schemathesis over the whole API as `/api/schema/` describes it, with keys and data, against a served site: no 5xx.

Twice: once with the ids of rows that are there, once with anything. `SCHEMA_CASES` is how many cases each operation gets.
"""

import http.cookiejar
import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import ServedAgain
from tests.clients.environments import SECONDS, python_with
from tests.e2e.conftest import ROOT, LiveSite

CASES = int(os.environ.get("SCHEMA_CASES", "60"))
NAMES = ("model", "deployment")
OPERATIONS = 27
_DONE = re.compile(r"(\d+) generated")


@pytest.fixture(scope="module")
def busy_site(served_again: ServedAgain) -> LiveSite:
    """Without limits."""
    return served_again(RATE_LIMITS="False")


def _schema(site: LiveSite, folder: Path) -> Path:
    """The schema, with the site's own deployment where one is named."""
    path = folder / "schema.json"
    site.manage("spectacular", "--format", "openapi-json", "--file", str(path))
    schema = json.loads(path.read_text().replace('"demo"', '"guide"'))
    operations = [each for found in schema["paths"].values() for each in found.values()]
    assert len(operations) >= OPERATIONS
    for operation in operations:
        for body in operation.get("requestBody", {}).get("content", {}).values():
            properties = body["schema"].get("properties", {})
            properties |= {name: {"enum": ["guide"]} for name in NAMES if name in properties}
    path.write_text(json.dumps(schema))
    return path


def _asked(site: LiveSite) -> tuple[str, str, dict[str, Any]]:
    """A visitor who has asked: their cookies, their token, and the ids of what they have."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    body = {"message": "Comment s’organise le télétravail ?", "clientMessageId": "schema-1"}
    request = urllib.request.Request(  # noqa: S310  # loopback
        f"{site.url}/api/rag/chat", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    turn = re.search(r'"turnId": "([^"]+)"', opener.open(request).read().decode())
    [conversation] = json.load(opener.open(f"{site.url}/api/conversations/"))["results"]
    thread = json.load(opener.open(f"{site.url}/api/conversations/{conversation['id']}/messages/"))
    cookies = {cookie.name: str(cookie.value) for cookie in jar}
    assert turn is not None
    ids = {
        "conversation_id": conversation["id"],
        "id": conversation["id"],
        "turn_id": turn[1],
        "message_id": thread["messages"][-1]["id"],
        "slug": "guide",
    }
    held = "; ".join(f"{name}={value}" for name, value in cookies.items())
    return held, cookies["csrftoken"], ids


def _configuration(site: LiveSite, secret: str, service: str, *, with_ids: bool) -> str:
    cookies, token, ids = _asked(site)
    session = {"Cookie": cookies, "X-CSRFToken": token}
    headers = {
        "^/api/(conversations|messages|rag)": session,
        "^/api/ui/": {"Authorization": f"Bearer {service}"},
        "^/v1/": {"Authorization": f"Bearer {secret}"},
    }
    lines = []
    if with_ids:
        lines += [
            "[parameters]",
            *(f'"path.{name}" = {json.dumps(value)}' for name, value in ids.items()),
        ]
    for paths, sent in headers.items():
        lines += [
            "[[operations]]",
            f"include-path-regex = {json.dumps(paths)}",
            "[operations.headers]",
        ]
        lines += [f"{name} = {json.dumps(value)}" for name, value in sent.items()]
    if with_ids:
        lines += [
            "[[operations]]",
            'include-operation-id = "conversations_destroy"',
            "enabled = false",
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("with_ids", [True, False], ids=["rows", "anything"])
def test_nothing_brings_an_operation_down(
    busy_site: LiveSite, secret: str, tmp_path: Path, *, with_ids: bool
) -> None:
    python = python_with("schemathesis", "schemathesis>=4.32,<5")
    service = busy_site.manage(
        "issue_service_token", f"schema-{with_ids}", "--deployment", "guide"
    ).strip()
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(_configuration(busy_site, secret, service, with_ids=with_ids))
    done = subprocess.run(  # noqa: S603  # a program installed for this
        [
            str(python.parent / "schemathesis"),
            "--config-file",
            str(configuration),
            "run",
            str(_schema(busy_site, tmp_path)),
            "--url",
            busy_site.url,
            *("--checks", "not_a_server_error"),
            *("--phases", "examples,coverage,fuzzing"),
            *("--max-examples", str(CASES)),
            *("--suppress-health-check", "all"),
            *("--request-timeout", "30"),
            "--continue-on-failure",
            "--no-shrink",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        check=False,
    )
    (ROOT / ".venv" / "clients" / f"schema-{with_ids}.txt").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    cases = _DONE.search(done.stdout)
    assert cases is not None
    assert int(cases[1]) >= CASES * OPERATIONS / 2
