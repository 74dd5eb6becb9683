"""The history of a validated answer: a line for each change, with who made it, and the way back."""

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import TestCase
from django.utils import timezone

from agents.history import PHRASINGS, restore
from faqs.answer_points import sync_learned
from faqs.answers import AnswerRejectedError, save_learned, set_status
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from knowledge.search import confirm_passages
from tests.constants import override
from tests.factories import fresh, make_learned, make_user, search_index

QUESTION = "Combien coûte la carte de lecteur ?"


def make_answer(answer: str = "12 euros.") -> LearnedResponse:
    return make_learned(question=QUESTION, answer=answer, phrasings=["Quel tarif ?"])


def write(row: LearnedResponse, answer: str, *, by: User | None = None) -> LogEntry:
    row.answer = answer
    save_learned(row, by=by)
    return LogEntry.objects.get_for_object(row).latest("pk")


class RecordingTest(TestCase):
    def test_write_that_changes_nothing_leaves_no_line(self) -> None:
        row = make_answer()
        before = LogEntry.objects.get_for_object(row).count()
        write(row, "12 euros.")
        assert LogEntry.objects.get_for_object(row).count() == before

    def test_changed_phrasing_or_status_leaves_a_line(self) -> None:
        row = make_answer()
        save_learned(row, phrasings=["Quel prix ?"])
        line = LogEntry.objects.get_for_object(row).latest("pk")
        assert line.changes == {PHRASINGS: [["Quel tarif ?"], ["Quel prix ?"]]}
        set_status([row], LearnedStatus.OBSOLETE, reason="Fermé.")
        line = LogEntry.objects.get_for_object(row).latest("pk")
        assert line.changes["status"] == ["valid", "obsolete"]


class RestoringTest(TestCase):
    def setUp(self) -> None:
        self.row, self.user = make_answer(), make_user(is_superuser=True)
        self.line = write(self.row, "15 euros.")

    def given(self) -> set[tuple[str, str]]:
        """The questions that find the answer, each with what is answered, once the points are written."""
        sync_learned([self.row.pk])
        found = confirm_passages(search_index(self.row.agent, QUESTION), agent_id=self.row.agent_id)
        return {(hit.question, hit.content) for hit in found.hits}

    def test_restored_answer_is_given_again(self) -> None:
        revision = self.row.revision
        restore(self.line, by=self.user)
        assert (fresh(self.row).answer, self.row.status) == ("12 euros.", LearnedStatus.VALID)
        assert (self.row.index_state, self.row.revision) == (IndexState.PENDING, revision + 1)
        assert self.given() == {(QUESTION, "12 euros."), ("Quel tarif ?", "12 euros.")}

    def test_restored_phrasings_are_asked_again(self) -> None:
        save_learned(self.row, phrasings=["Le prix ?", "Combien ?"])
        restore(LogEntry.objects.get_for_object(self.row).latest("pk"), by=self.user)
        assert self.given() == {(QUESTION, "15 euros."), ("Quel tarif ?", "15 euros.")}

    def test_versions_are_restored_one_after_the_other(self) -> None:
        later = write(self.row, "20 euros.")
        with pytest.raises(ValidationError):
            restore(self.line, by=self.user)
        for line, answer in ((later, "15 euros."), (self.line, "12 euros.")):
            restore(line, by=self.user)
            assert fresh(self.row).answer == answer

    def test_review_date_that_has_passed_does_not_come_back(self) -> None:
        yesterday = timezone.localdate() - timedelta(days=1)
        LearnedResponse.objects.filter(pk=self.row.pk).update(review_date=yesterday)
        restore(self.line, by=self.user)
        assert fresh(self.row).is_valid

    @override(QA_MAX_ANSWER_CHARACTERS=5)
    def test_text_that_is_no_longer_allowed_is_refused(self) -> None:
        with pytest.raises(AnswerRejectedError):
            restore(self.line, by=self.user)
        assert fresh(self.row).answer == "15 euros."
