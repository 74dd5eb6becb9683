"""The history of a validated answer: a line for each change, with who made it."""

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.test import TestCase

from agents.history import PHRASINGS
from faqs.answers import AnswerRejectedError, save_learned, set_status
from faqs.models import LearnedResponse, LearnedStatus
from tests.factories import make_learned, make_user

QUESTION = "Combien coûte la carte de lecteur ?"


def make_answer(answer: str = "12 euros.") -> LearnedResponse:
    return make_learned(question=QUESTION, answer=answer, phrasings=["Quel tarif ?"])


def write(row: LearnedResponse, answer: str, *, by: User | None = None) -> LogEntry:
    row.answer = answer
    save_learned(row, by=by)
    return LogEntry.objects.get_for_object(row).latest("pk")


class RecordingTest(TestCase):
    def test_line_says_what_changed_and_who_changed_it(self) -> None:
        row, user = make_answer(), make_user()
        line = write(row, "15 euros.", by=user)
        assert line.changes["answer"] == ["12 euros.", "15 euros."]
        assert (line.actor, line.additional_data["who"]) == (user, user.username)

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

    def test_write_that_is_undone_leaves_no_line(self) -> None:
        row = make_answer()
        before = LogEntry.objects.get_for_object(row).count()
        with pytest.raises(AnswerRejectedError):
            write(row, "")
        assert LogEntry.objects.get_for_object(row).count() == before
