"""Searching one's own conversations."""

import subprocess
import sys

from django.test import Client

from chat.models import Conversation, Message, Role
from tests.constants import override
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
assert "chat.api.conversations" not in sys.modules
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

    def excerpt(self, text: str) -> tuple[str, list[str], str | None]:
        """The excerpt of what is found, its marked words, and its turn."""
        [row] = self.client.get("/api/conversations/", {"q": text}).json()["results"]
        parts = row["excerpt"]
        marked = [part["text"] for part in parts if part["found"]]
        return "".join(part["text"] for part in parts), marked, row["turnId"]

    def test_excerpt_shows_the_words_where_they_were_said(self) -> None:
        self.say(f"{'Avant cela, rien. ' * 20}Rendez **l’été** au [guichet] Nº 2 [1]. {'Et puis. ' * 40}")
        text, marked, turn = self.excerpt("ETE guichet")
        assert marked == ["été", "guichet"]
        assert text.startswith("… ")
        assert "Rendez l’été au [guichet] Nº 2. Et puis." in text
        assert text.endswith(" …")
        assert len(text) < 170
        assert turn == str(self.turn.pk)

    def test_excerpt_keeps_to_its_letters_where_folding_moves_them(self) -> None:
        self.say("e\u0301\u0323 한국어 œuvre d’art " * 30 + "le guichet de l’été")
        text, marked, _turn = self.excerpt("guichet ÉTÉ")
        assert marked == ["guichet", "été"]
        assert text.endswith("le guichet de l’été")

    def test_there_is_no_excerpt_where_only_the_title_has_the_words(self) -> None:
        Conversation.objects.update(title="Piscine")
        assert self.excerpt("piscine") == ("", [], None)
        assert self.excerpt("") == ("", [], None)

    def say(self, answer: str) -> None:
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(content=answer)

    @override(SEARCH_MAX_CONVERSATIONS=1)
    def test_search_looks_at_the_latest_conversations_only(self) -> None:
        make_exchange(self.open_conversation(), "Autre chose", "Oui.")
        assert self.found("salle") == 0
