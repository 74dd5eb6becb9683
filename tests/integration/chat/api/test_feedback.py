"""Verdicts of readers: kept, taken back, and what they do to stored answers."""

import uuid
from typing import Any
from unittest import mock

from django.test import Client, override_settings

from agents.admin_base import admin_url
from chat.models import AnswerSource, Conversation, Feedback, Message, Role, Turn, Verdict
from chat.thread.verdicts import asked_question, give_feedback, withdraw_feedback
from chat.turn.values import Trace
from faqs.memory import delete_entries, edit_entry, question_hash, validate_entries
from faqs.models import AnswerDoubt, CachedResponse, EntryStatus, UnansweredQuestion, WrongPair
from knowledge.embeddings.base import embedder
from knowledge.errors import EmbeddingUnavailableError
from tests.admin_pages import superuser_client
from tests.factories import fresh, make_conversation, make_entry, make_exchange, make_user
from tests.readers import QUESTION, ReaderTest


class FeedbackTests(ReaderTest):
    def test_verdict_is_kept_changed_and_shown_to_its_author(self) -> None:
        assert self.judge("up").status_code == 200
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

    def test_thumb_down_of_somebody_signed_in_bars_the_stored_answer_at_once(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        turn = self.given_from_memory(entry, user=make_user())
        for _ in range(2):
            give_feedback(turn, Verdict.DOWN, reason="outdated")
        assert fresh(entry).status == EntryStatus.TO_REVIEW
        assert WrongPair.objects.get().response_id == entry.pk

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_one_anonymous_visitor_bars_nothing_however_often(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        visitor = uuid.uuid4()
        for _ in range(3):
            give_feedback(self.given_from_memory(entry, visitor=visitor), Verdict.DOWN)
        assert fresh(entry).status == EntryStatus.VALID
        assert not WrongPair.objects.exists()
        assert entry.doubts.count() == 1

    def test_as_many_anonymous_visitors_as_the_setting_says_bar_it(self) -> None:
        for needed in (1, 2, 3):
            entry = make_entry(self.deployment, f"{QUESTION} {needed}", "À l’accueil.")
            with self.settings(ANONYMOUS_REPORTS_TO_WITHDRAW=needed):
                for _ in range(needed):
                    assert fresh(entry).status == EntryStatus.VALID
                    give_feedback(self.given_from_memory(entry), Verdict.DOWN, reason="outdated")
            assert (fresh(entry).status, entry.status_reason) == (EntryStatus.TO_REVIEW, "reported")
            assert not entry.doubts.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_doubt_that_is_taken_back_does_not_count(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        first, second = self.given_from_memory(entry), self.given_from_memory(entry)
        give_feedback(first, Verdict.DOWN)
        give_feedback(first, Verdict.UP)
        give_feedback(second, Verdict.DOWN)
        withdraw_feedback(second)
        assert not entry.doubts.exists()
        give_feedback(first, Verdict.DOWN)
        give_feedback(second, Verdict.DOWN)
        assert fresh(entry).status == EntryStatus.TO_REVIEW

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_visitor_who_changes_their_mind_again_and_again_costs_one_embedding(self) -> None:
        turn = self.given_from_memory(make_entry(self.deployment, QUESTION, "À l’accueil."))
        with mock.patch("chat.thread.verdicts.embedder", wraps=embedder) as asked:
            for _ in range(3):
                give_feedback(turn, Verdict.DOWN)
                give_feedback(turn, Verdict.UP)
        assert asked.call_count == 1
        assert UnansweredQuestion.objects.count() == 1

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_staff_see_a_doubt_and_their_validation_ends_it(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        give_feedback(self.given_from_memory(entry), Verdict.DOWN, comment="Trop vieux.")
        make_entry(self.deployment, "Une autre question ?")
        staff = superuser_client()
        page = staff.get(admin_url(CachedResponse, "changelist", doubts="1")).content.decode()
        assert "mise en doute par 1 visiteur" in page
        assert "Une autre question ?" not in page
        shown = staff.get(admin_url(CachedResponse, "change", entry.pk)).content.decode()
        assert "Trop vieux." in shown
        validate_entries(CachedResponse.objects.filter(pk=entry.pk))
        assert not entry.doubts.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_doubt_about_an_answer_that_staff_have_corrected_does_not_count(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        give_feedback(self.given_from_memory(entry), Verdict.DOWN)
        entry.refresh_from_db()
        edit_entry(entry)
        assert entry.doubts.exists()
        entry.answer = "Au premier étage."
        edit_entry(entry)
        assert not entry.doubts.exists()

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

    def test_doubt_goes_with_its_conversation_and_with_its_entry(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        turn = self.given_from_memory(entry)
        give_feedback(turn, Verdict.DOWN)
        turn.conversation.delete()
        assert not entry.doubts.exists()
        give_feedback(self.given_from_memory(entry), Verdict.DOWN)
        assert delete_entries(CachedResponse.objects.filter(pk=entry.pk)) == 1
        assert not AnswerDoubt.objects.exists()

    @override_settings(ANONYMOUS_REPORTS_TO_WITHDRAW=2)
    def test_visitor_alone_does_not_bar_what_staff_validated_from_their_turn(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.", source_turn=self.turn.pk)
        validate_entries(CachedResponse.objects.filter(pk=entry.pk))
        self.judge("down")
        assert fresh(entry).status == EntryStatus.VALID

    def test_thumb_down_bars_what_was_learned_from_the_turn(self) -> None:
        entry = make_entry(self.deployment, QUESTION, "À l’accueil.")
        CachedResponse.objects.filter(pk=entry.pk).update(source_turn=self.turn.pk)
        self.judge("down")
        assert fresh(entry).status == EntryStatus.TO_REVIEW

    def test_thumb_up_reports_nothing(self) -> None:
        self.judge("up")
        assert not UnansweredQuestion.objects.exists()

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

    def test_temporary_chat_teaches_nothing(self) -> None:
        Conversation.objects.update(is_temporary=True)
        give_feedback(self.turn, Verdict.DOWN)
        assert not UnansweredQuestion.objects.exists()
