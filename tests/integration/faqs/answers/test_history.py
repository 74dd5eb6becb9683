"""The history of a validated answer: a line for each change, with who made it, and the way back."""

from datetime import timedelta

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from agents.history import PHRASINGS, lines_of, take_back
from faqs.answers import AnswerRejectedError, save_learned, set_status
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from tests.constants import override
from tests.factories import fresh, make_learned, make_user

QUESTION = "Combien coûte la carte de lecteur ?"


def make_answer(answer: str = "12 euros.") -> LearnedResponse:
    return make_learned(question=QUESTION, answer=answer, phrasings=["Quel tarif ?"])


def write(row: LearnedResponse, answer: str, *, by: User | None = None) -> LogEntry:
    row.answer = answer
    save_learned(row, by=by)
    line = lines_of(row).first()
    assert line is not None
    return line


class RecordingTest(TestCase):
    def test_line_says_what_changed_and_who_changed_it(self) -> None:
        row, user = make_answer(), make_user()
        line = write(row, "15 euros.", by=user)
        assert line.changes["answer"] == ["12 euros.", "15 euros."]
        assert (line.actor, line.additional_data["who"]) == (user, user.username)

    def test_write_that_changes_nothing_leaves_no_line(self) -> None:
        row = make_answer()
        before = lines_of(row).count()
        write(row, "12 euros.")
        assert lines_of(row).count() == before

    def test_changed_phrasing_or_status_leaves_a_line(self) -> None:
        row = make_answer()
        save_learned(row, phrasings=["Quel prix ?"])
        line = lines_of(row).first()
        assert line is not None
        assert line.changes == {PHRASINGS: [["Quel tarif ?"], ["Quel prix ?"]]}
        set_status([row], LearnedStatus.OBSOLETE, reason="Fermé.")
        line = lines_of(row).first()
        assert line is not None
        assert line.changes["status"] == ["valid", "obsolete"]

    def test_write_that_is_undone_leaves_no_line(self) -> None:
        row = make_answer()
        before = lines_of(row).count()
        with pytest.raises(AnswerRejectedError):
            write(row, "")
        assert lines_of(row).count() == before


class RestoringTest(TestCase):
    def setUp(self) -> None:
        self.row, self.user = make_answer(), make_user()
        self.line = write(self.row, "15 euros.")

    def test_restored_answer_is_served_again(self) -> None:
        revision = self.row.revision
        take_back(self.line, by=self.user)
        assert (fresh(self.row).answer, self.row.status) == ("12 euros.", LearnedStatus.VALID)
        assert (self.row.index_state, self.row.revision) == (IndexState.PENDING, revision + 1)
        latest = lines_of(self.row).first()
        assert latest is not None
        assert (latest.actor, latest.additional_data["origin"]) == (self.user, "restore")

    def test_phrasings_come_back_together(self) -> None:
        save_learned(self.row, phrasings=["Quel prix ?", "Le prix ?"])
        line = lines_of(self.row).first()
        assert line is not None
        take_back(line, by=self.user)
        assert [phrasing.text for phrasing in self.row.phrasings.all()] == ["Quel tarif ?"]
        assert fresh(self.row).answer == "15 euros."

    def test_review_date_that_has_passed_does_not_come_back(self) -> None:
        yesterday = timezone.localdate() - timedelta(days=1)
        LearnedResponse.objects.filter(pk=self.row.pk).update(review_date=yesterday)
        take_back(self.line, by=None)
        assert fresh(self.row).is_valid

    @override(QA_MAX_ANSWER_CHARACTERS=5)
    def test_text_that_is_no_longer_allowed_is_refused(self) -> None:
        with pytest.raises(AnswerRejectedError):
            take_back(self.line, by=None)
        assert fresh(self.row).answer == "15 euros."
