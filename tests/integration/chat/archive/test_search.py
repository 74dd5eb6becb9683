"""Searching one's own conversations."""

import subprocess
import sys

from django.test import Client, override_settings

from tests.factories import make_exchange
from tests.readers import ReaderTest


def test_connection_that_opens_before_any_page_was_asked_for_can_be_searched_too() -> None:
    """A process reads its database (leases, jobs) before it loads the pages, and keeps that connection."""
    script = """
import sys
import django
django.setup()
from django.db.utils import ConnectionHandler
sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
cursor = ConnectionHandler({"default": sqlite})["default"].cursor()
assert "chat.doors.http.conversations" not in sys.modules
print(cursor.execute("SELECT repondant_folded(%s)", ["Été"]).fetchone()[0])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603
    assert ran.stdout == "ete\n", ran.stderr


class SearchTests(ReaderTest):
    def found(self, text: str) -> int:
        return len(self.client.get("/api/conversations/", {"q": text}).json()["results"])

    def test_search_minds_neither_case_nor_accents(self) -> None:
        for text in ("reserver", "RÉSERVER", "l'accueil", "salle réserver", "  "):
            assert self.found(text) == 1, text
        for text in ("réserver piscine", "50%", "_"):
            assert self.found(text) == 0, text

    def test_search_stays_with_the_own_conversations(self) -> None:
        stranger = Client()
        answer = stranger.get("/api/conversations/", {"q": "salle"}).json()
        assert answer["results"] == []

    @override_settings(SEARCH_MAX_CONVERSATIONS=1)
    def test_search_looks_at_the_latest_conversations_only(self) -> None:
        make_exchange(self.open_conversation(), "Autre chose", "Oui.")
        assert self.found("salle") == 0
