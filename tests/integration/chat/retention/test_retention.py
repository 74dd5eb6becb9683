"""Own conversations are found by their words, and forgotten in time."""

import uuid
from datetime import timedelta
from unittest import mock

from django.test import Client
from django.utils import timezone

from agents.retention import RULES
from chat.models import Conversation, Feedback, Message, Turn, TurnStatus
from faqs.models import CachedResponse, UnansweredQuestion
from tests.constants import override
from tests.factories import fresh, make_entry, make_exchange, make_turn
from tests.readers import QUESTION, ReaderTest
from tests.servers.commands import python
from tests.terminal import run


def test_connection_that_opens_before_any_page_was_asked_for_can_be_searched_too() -> None:
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
    assert python("-c", script).stdout == "ete\n"


class SearchTests(ReaderTest):
    def found(self, text: str) -> int:
        return len(self.client.get("/api/conversations/", {"q": text}).json()["results"])

    def test_titles_and_messages_are_searched_whatever_the_case_and_accents(self) -> None:
        Conversation.objects.update(title="Sport")
        for text in ("reserver", "RÉSERVER", "l'accueil", "salle réserver", "  ", "sport"):
            assert self.found(text) == 1, text
        for text in ("réserver piscine", "50%", "_"):
            assert self.found(text) == 0, text

    def test_search_stays_with_the_own_conversations(self) -> None:
        stranger = Client()
        answer = stranger.get("/api/conversations/", {"q": "salle"}).json()
        assert answer["results"] == []

    @override(SEARCH_MAX_CONVERSATIONS=1)
    def test_search_looks_at_the_latest_conversations_only(self) -> None:
        make_exchange(self.open_conversation(), "Autre chose", "Oui.")
        assert self.found("salle") == 0


class RetentionTests(ReaderTest):
    def age(self, conversation: Conversation, **ago: float) -> None:
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=timezone.now() - timedelta(**ago))

    def test_conversation_in_which_nothing_was_asked_goes_after_a_day(self) -> None:
        empty, young = self.open_conversation(), self.open_conversation()
        for each in (empty, self.conversation):
            self.age(each, hours=25)
        rule = next(rule for rule in RULES if rule.name == "empty_conversations")
        assert sum(rule.deleted()) == 1
        assert set(Conversation.objects.all()) == {young, self.conversation}

    def test_purge_deletes_what_is_old_for_good(self) -> None:
        self.judge("down")
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        CachedResponse.objects.filter(pk=entry.pk).update(source_turn=self.turn.pk)
        young = self.open_conversation()
        self.age(self.conversation, days=31)
        assert run("purge_conversations", "--older-than", "30") == {"found": 1, "deleted": 1}
        assert Conversation.objects.get() == young
        for model in (Turn, Message, Feedback, UnansweredQuestion):
            assert not model._default_manager.exists(), model
        assert fresh(entry).source_turn is None

    def test_dry_run_counts_and_deletes_nothing(self) -> None:
        self.age(self.conversation, days=31)
        assert run("purge_conversations", "--older-than", "30", "--dry-run")["found"] == 1
        assert Conversation.objects.count() == 1

    def test_conversation_with_a_running_answer_is_left(self) -> None:
        make_turn(self.conversation, status=TurnStatus.RUNNING, client_message_id=str(uuid.uuid4()))
        self.age(self.conversation, days=31)
        assert run("purge_conversations", "--older-than", "30")["deleted"] == 0

    def test_more_than_one_batch_is_deleted(self) -> None:
        with mock.patch("chat.retention.BATCH", 2):
            for _ in range(4):
                self.open_conversation()
            Conversation.objects.update(updated_at=timezone.now() - timedelta(days=400))
            assert run("purge_conversations", "--older-than", "365")["deleted"] == 5
