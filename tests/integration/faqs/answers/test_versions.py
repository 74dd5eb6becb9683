"""Versions of a validated answer: one for each change, the first and the latest kept, and the way back to any of them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from agents.admin_base import admin_url
from faqs.answers import draft_faq, restore_version, save_learned, set_status
from faqs.errors import AnswerRejectedError
from faqs.models import AnswerVersion, IndexState, LearnedResponse, LearnedStatus, WrittenHow
from faqs.versions import begin_history, record_versions
from tests.admin_pages import client_of, make_staff, queries_of, shown_messages, superuser_client
from tests.constants import override
from tests.factories import make_agent, make_learned, make_user

QUESTION = "Combien coûte la carte de lecteur ?"


def make_answer(answer: str = "12 euros.") -> LearnedResponse:
    """A validated answer as it is before versions were kept."""
    row = make_learned(question=QUESTION, answer=answer, phrasings=["Quel tarif ?"])
    AnswerVersion.objects.all().delete()
    return row


def write(row: LearnedResponse, answer: str, *, by: User | None = None) -> None:
    row.answer = answer
    save_learned(row, by=by)


def answers(row: LearnedResponse) -> list[tuple[int, str]]:
    return list(row.versions.order_by("number").values_list("number", "answer"))


class RecordingTest(TestCase):
    def test_first_change_keeps_the_state_before_it(self) -> None:
        row, user = make_answer(), make_user()
        changed_at = row.updated_at
        write(row, "15 euros.", by=user)
        before, after = row.versions.order_by("number")
        assert (before.answer, before.how, before.made_by) == ("12 euros.", WrittenHow.SYSTEM, None)
        assert before.made_at == changed_at
        assert (after.answer, after.how, after.made_by) == ("15 euros.", WrittenHow.TYPED, user)
        assert before.phrasings == after.phrasings == ["Quel tarif ?"]

    def test_new_answer_has_one_version(self) -> None:
        row = make_learned(question=QUESTION, answer="12 euros.")
        assert answers(row) == [(1, "12 euros.")]

    def test_write_that_changes_nothing_leaves_no_version(self) -> None:
        row = make_answer()
        write(row, "12 euros.")
        write(row, "12 euros.")
        assert answers(row) == [(1, "12 euros.")]

    def test_changed_phrasing_or_status_is_a_version(self) -> None:
        row, user = make_answer(), make_user()
        save_learned(row, phrasings=["Quel prix ?"])
        set_status([row], LearnedStatus.OBSOLETE, reason="Fermé.", by=user)
        _first, second, third = row.versions.order_by("number")
        assert (third.how, third.made_by) == (WrittenHow.STATUS, user)
        assert second.phrasings == ["Quel prix ?"]
        assert (third.status, third.status_reason) == (LearnedStatus.OBSOLETE, "Fermé.")

    def test_version_goes_with_a_write_that_is_undone(self) -> None:
        row = make_answer()
        with pytest.raises(AnswerRejectedError):
            write(row, "")
        assert answers(row) == []

    @override(ANSWER_VERSIONS_KEPT=4)
    def test_first_and_latest_versions_are_kept(self) -> None:
        row, other = make_answer("0"), make_answer("autre")
        write(other, "autre réponse")
        for number in range(1, 8):
            write(row, str(number))
        assert answers(row) == [(1, "0"), (6, "5"), (7, "6"), (8, "7")]
        assert len(answers(other)) == 2

    def test_many_rows_take_as_many_queries_as_one(self) -> None:
        rows = [make_answer() for _ in range(5)]
        for some in (rows[:1], rows):
            keys = [row.pk for row in some]
            AnswerVersion.objects.all().delete()
            with self.assertNumQueries(7):  # rows, phrasings, latest versions, twice; one insertion
                begin_history(keys)
                record_versions(keys, how=WrittenHow.STATUS, by=None)
            assert AnswerVersion.objects.count() == len(some)

    def test_change_that_nobody_recorded_is_kept_before_it_is_replaced(self) -> None:
        row = make_answer()
        write(row, "15 euros.")
        LearnedResponse.objects.filter(pk=row.pk).update(status_reason="Date dépassée.")
        row.refresh_from_db()
        write(row, "20 euros.")
        between = row.versions.get(number=3)
        assert (between.answer, between.status_reason, between.how) == (
            *("15 euros.", "Date dépassée."),
            WrittenHow.SYSTEM,
        )

    def test_versions_go_with_their_answer_and_outlive_their_maker(self) -> None:
        row, user = make_answer(), make_user()
        write(row, "15 euros.", by=user)
        user.delete()
        assert row.versions.count() == 2
        row.delete()
        assert not AnswerVersion.objects.exists()


class RestoringTest(TestCase):
    def setUp(self) -> None:
        self.row, self.user = make_answer(), make_user()
        write(self.row, "15 euros.")
        self.first = self.row.versions.get(number=1)

    def test_restored_version_is_served_again_with_its_phrasings(self) -> None:
        save_learned(self.row, phrasings=[])
        revision = self.row.revision
        response = restore_version(self.first, by=self.user)
        assert (response.answer, response.status) == ("12 euros.", LearnedStatus.VALID)
        assert [phrasing.text for phrasing in response.phrasings.all()] == ["Quel tarif ?"]
        assert (response.index_state, response.revision) == (IndexState.PENDING, revision + 1)
        latest = self.row.versions.first()
        assert latest is not None
        assert (latest.answer, latest.how, latest.made_by) == (*("12 euros.", WrittenHow.RESTORED), self.user)

    def test_draft_is_restored_as_a_draft(self) -> None:
        draft = draft_faq(agent=make_agent(), question=QUESTION)
        AnswerVersion.objects.filter(response=draft).delete()
        record_versions([draft.pk], how=WrittenHow.UNANSWERED, by=None)
        write(draft, "12 euros.")
        restored = restore_version(draft.versions.get(number=1), by=None)
        assert (restored.status, restored.answer) == (LearnedStatus.TO_REVIEW, "")

    def test_review_date_that_has_passed_does_not_come_back(self) -> None:
        yesterday = timezone.localdate() - timedelta(days=1)
        AnswerVersion.objects.filter(pk=self.first.pk).update(review_date=yesterday)
        self.first.refresh_from_db()
        assert restore_version(self.first, by=None).is_valid

    @override(QA_MAX_ANSWER_CHARACTERS=5)
    def test_text_that_is_no_longer_allowed_is_refused(self) -> None:
        with pytest.raises(AnswerRejectedError):
            restore_version(self.first, by=None)
        self.row.refresh_from_db()
        assert self.row.answer == "15 euros."


class PageTest(TestCase):
    def setUp(self) -> None:
        self.user = make_user(username="anne")
        self.row = make_answer()
        write(self.row, "15 euros <b>.", by=self.user)
        self.page = admin_url(LearnedResponse, "change", self.row.pk)
        self.restore = admin_url(LearnedResponse, "restore", self.row.pk, 1)

    def test_page_shows_who_changed_which_words(self) -> None:
        page = superuser_client().get(self.page).content.decode()
        assert "anne" in page
        assert "<del>12</del>" in page
        assert "<ins>15</ins>" in page
        assert "&lt;" in page
        assert "<b>.</ins>" not in page
        assert page.count(f'href="{self.restore}"') == 1
        assert admin_url(LearnedResponse, "restore", self.row.pk, 2) not in page

    def test_page_without_versions_says_so(self) -> None:
        AnswerVersion.objects.all().delete()
        assert "Aucune version" in superuser_client().get(self.page).content.decode()

    def test_number_of_queries_does_not_grow_with_the_versions(self) -> None:
        client = superuser_client()
        client.get(self.page)  # content types and the like are cached by the first request
        few = queries_of(client, self.page)
        for number in range(5):
            write(self.row, f"{number} euros.", by=self.user)
        assert queries_of(client, self.page) == few

    def test_restoring_asks_first_and_then_does_it(self) -> None:
        client = superuser_client()
        page = client.get(self.restore)
        assert "<ins>12</ins>" in page.content.decode()
        self.row.refresh_from_db()
        assert self.row.answer == "15 euros <b>."
        response = client.post(self.restore, {"revision": self.row.revision}, follow=True)
        assert "version 1 est restaurée" in shown_messages(response)
        self.row.refresh_from_db()
        assert self.row.answer == "12 euros."
        assert self.row.versions.count() == 3

    def test_answer_that_changed_meanwhile_is_shown_again_first(self) -> None:
        client, before = superuser_client(), self.row.revision
        write(self.row, "20 euros.")
        response = client.post(self.restore, {"revision": before})
        assert "changé entre-temps" in response.content.decode()
        self.row.refresh_from_db()
        assert self.row.answer == "20 euros."

    def test_who_may_only_look_sees_versions_and_restores_none(self) -> None:
        client = client_of(make_staff("faqs.view_learnedresponse"))
        page = client.get(self.page).content.decode()
        assert "<del>12</del>" in page
        assert self.restore not in page
        for response in (client.get(self.restore), client.post(self.restore, {"revision": 1})):
            assert response.status_code == 403

    def test_version_of_another_answer_is_not_found(self) -> None:
        other = make_answer()
        address = admin_url(LearnedResponse, "restore", other.pk, 2)
        assert superuser_client().get(address).status_code == 404
