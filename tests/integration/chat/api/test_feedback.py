"""Verdicts of readers: kept, taken back, and what they do to stored answers."""

import uuid
from typing import Any
from unittest import mock

from django.test import Client

from agents.admin_base import admin_url
from chat.models import AnswerSource, Feedback, Message, Role, Turn, Verdict
from chat.thread.verdicts import asked_question, give_feedback
from chat.turn.values import Trace
from faqs.memory import question_hash
from faqs.models import CachedResponse, EntryStatus, UnansweredQuestion, WrongPair
from knowledge.embeddings.base import embedder
from knowledge.errors import EmbeddingUnavailableError
from tests.admin_pages import superuser_client
from tests.factories import fresh, make_conversation, make_entry, make_exchange, make_user
from tests.readers import QUESTION, ReaderTest


class FeedbackTests(ReaderTest):
    def test_verdict_is_kept_changed_and_shown_to_its_author(self) -> None:
        assert self.judge("up").status_code == 200
        assert not UnansweredQuestion.objects.exists()
        assert self.judge("down", reason="incomplete", comment="Et le soir ?").status_code == 200
        given = Feedback.objects.get()
        assert (given.verdict, given.reason, given.comment) == (Verdict.DOWN, "incomplete", "Et le soir ?")
        messages = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert messages["messages"][1]["feedback"]["verdict"] == "down"

    def test_withdrawn_verdict_stays_for_staff_marked(self) -> None:
        self.judge("down")
        url = f"/api/messages/{self.answer.pk}/feedback"
        assert self.client.delete(url).status_code == 204
        assert Feedback.objects.get().withdrawn_at is not None
        messages = self.client.get(f"/api/conversations/{self.conversation.pk}/messages/").json()
        assert messages["messages"][1]["feedback"] is None
        self.judge("up")
        assert Feedback.objects.get().withdrawn_at is None

    def test_others_may_not_judge_and_questions_are_not_judged(self) -> None:
        assert self.judge("down", Client()).status_code == 404
        question = Message.objects.get(turn=self.turn, role=Role.USER)
        url = f"/api/messages/{question.pk}/feedback"
        assert self.client.post(url, {"verdict": "up"}, "application/json").status_code == 404
        assert not Feedback.objects.exists()

    def test_what_is_sent_is_bounded(self) -> None:
        assert self.judge("down", comment="x" * 1_001).status_code == 400
        assert self.judge("down", reason="whatever").status_code == 400
        assert self.judge("sideways").status_code == 400

    def test_thumb_down_keeps_the_question_once(self) -> None:
        for verdict in ("down", "up", "down"):
            self.judge(verdict)
        kept = UnansweredQuestion.objects.get()
        assert (kept.question, kept.reason, kept.source_turn) == (QUESTION, "reported", self.turn.pk)

    def given_from_memory(self, entry: CachedResponse, **owner: Any) -> Turn:
        """The same stored answer in a conversation of its own."""
        conversation = make_conversation(self.deployment, **(owner or {"visitor": uuid.uuid4()}))
        trace = Trace()
        trace.step("memory_guard", "respond_from_memory")
        trace.gave(entry.pk)
        return make_exchange(
            conversation, QUESTION, "À l’accueil.", answer_source=AnswerSource.MEMORY_GUARD, trace=trace.lines
        )

    def test_thumb_down_bars_the_stored_answer_at_once_and_once(self) -> None:
        owners: tuple[dict[str, Any], ...] = ({"user": make_user()}, {"visitor": uuid.uuid4()})
        for number, owner in enumerate(owners):
            entry = make_entry(self.deployment, f"{QUESTION} {number}", "À l’accueil.")
            turn = self.given_from_memory(entry, **owner)
            for _ in range(2):
                give_feedback(turn, Verdict.DOWN, reason="outdated")
            assert fresh(entry).status == EntryStatus.TO_REVIEW
            assert WrongPair.objects.get(response=entry)

    def test_visitor_who_changes_their_mind_again_and_again_costs_one_embedding(self) -> None:
        turn = self.given_from_memory(make_entry(self.deployment, QUESTION, "À l’accueil."))
        with mock.patch("chat.thread.verdicts.embedder", wraps=embedder) as asked:
            for _ in range(3):
                give_feedback(turn, Verdict.DOWN)
                give_feedback(turn, Verdict.UP)
        assert asked.call_count == 1
        assert UnansweredQuestion.objects.count() == 1

    def test_words_of_a_report_go_with_its_conversation_and_the_bar_stays(self) -> None:
        entry = make_entry(self.deployment, "Où réserver une grande salle ?", "À l’accueil.")
        turn = self.given_from_memory(entry)
        give_feedback(turn, Verdict.DOWN, comment="Dites-le à Jeanne Martin.")
        entry.refresh_from_db()
        assert "Jeanne" in entry.status_note
        turn.conversation.delete()
        pair = WrongPair.objects.get()
        assert (pair.question, pair.reason, pair.source_turn) == ("", "", None)
        assert pair.question_hash == question_hash(QUESTION)
        assert (fresh(entry).status, entry.status_note) == (EntryStatus.TO_REVIEW, "")
        page = superuser_client().get(admin_url(CachedResponse, "change", entry.pk))
        assert "(conversation supprimée)" in page.content.decode()

    def test_thumb_down_bars_what_was_learned_from_the_turn(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        CachedResponse.objects.filter(pk=entry.pk).update(source_turn=self.turn.pk)
        self.judge("down")
        assert fresh(entry).status == EntryStatus.TO_REVIEW

    def test_verdict_is_kept_where_the_report_fails_and_the_next_one_reports(self) -> None:
        failing = mock.patch("chat.thread.verdicts.embedder", side_effect=EmbeddingUnavailableError("down"))
        with failing, self.assertLogs("chat.thread.verdicts", "WARNING"):
            assert self.judge("down").status_code == 200
        assert Feedback.objects.get().reported_at is None
        self.judge("down")
        assert Feedback.objects.get().reported_at is not None
        assert UnansweredQuestion.objects.count() == 1

    def test_follow_up_is_reported_with_the_question_that_it_leans_on(self) -> None:
        trace = Trace()
        trace.step("standalone", "follow_up")
        turn = make_exchange(self.conversation, "Et le soir ?", "Non.", trace=trace.lines)
        assert asked_question(turn) == f"{QUESTION}\nEt le soir ?"
