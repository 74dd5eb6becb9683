"""The audit of dependencies: what it reads without a network, and what it says with one that answers, or does not."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests import audit


@contextmanager
def _database(vulnerable: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            results = [
                {"vulns": [{"id": "TEST-1"}]} if query["package"]["name"] == vulnerable else {} for query in asked
            ]
            body = json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_every_pinned_package_that_is_installed_has_a_licence_of_the_list() -> None:
    pinned = audit.pins(audit.PINS.read_text())
    assert len(pinned) > 100
    assert list(audit.licence_problems(pinned)) == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("LGPL-3.0-only", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("GPL-3.0-only", False),
        ("AGPL-3.0", False),
        ("GNU General Public License v2 (GPLv2)", False),
        ("MIT AND GPL-2.0", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_copyleft_of_whole_programs_and_silence_are_looked_at(licence: str, allowed: bool) -> None:
    assert audit.is_allowed(licence) is allowed


def test_known_vulnerability_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with _database("django") as database:
        assert audit.main(database) == 1
    assert "TEST-1" in capsys.readouterr().out


def test_database_that_knows_nothing_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    with _database("none") as database:
        assert audit.main(database) == 0
    assert "0 known vulnerabilities" in capsys.readouterr().out


def test_database_that_does_not_answer_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main("http://127.0.0.1:9") == 2
    assert "NOT checked" in capsys.readouterr().out
