"""Which answers of the memory and of the FAQ wait for a person."""

from typing import Any

from django.test import TestCase
from django.utils import timezone

from agents.admin_base import admin_url
from faqs.answers import answers_to_review, entries_to_review, save_learned, set_status
from faqs.models import (
    CachedResponse,
    EntryStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    QuestionGroup,
    StatusReason,
)
from tests.admin_pages import superuser_client
from tests.factories import fresh, make_deployment, make_entry, make_learned


class ReviewTest(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()

    def entry(self, question: str, **overrides: Any) -> CachedResponse:
        fields = {"status": EntryStatus.TO_REVIEW, "status_reason": StatusReason.LEARNED}
        return make_entry(self.deployment, question, "Oui.", **{**fields, **overrides})

    def draft(self, question: str, **overrides: Any) -> LearnedResponse:
        fields = {"status": LearnedStatus.TO_REVIEW, "answer": "Oui.", **overrides}
        return make_learned(self.deployment.agent, question=question, **fields)

    def test_what_a_standing_answer_replaced_is_not_offered_to_be_put_back(self) -> None:
        newer = make_learned(self.deployment.agent, question="Ouvert ?", answer="Dès 7 heures.")
        voucher = self.entry("Fermé ?", status=EntryStatus.VALID)
        self.draft("Ouvert ?", superseded_by=newer)
        self.draft("Fermé ?", superseded_by_entry=voucher)
        self.entry("Ouvert ?", superseded_by=newer)
        assert not answers_to_review().exists()
        assert not entries_to_review().exists()

    def test_lists_are_narrowed_to_what_waits(self) -> None:
        client = superuser_client()
        for row in (self.draft("Brouillon ?"), self.entry("Apprise ?")):
            page = client.get(admin_url(type(row), "changelist", review="waiting"))
            assert list(page.context["cl"].result_list) == [row]

    def test_what_was_replaced_waits_again_once_nothing_stands_in_its_place(self) -> None:
        newer = make_learned(self.deployment.agent, question="Ouvert ?", status=LearnedStatus.OBSOLETE)
        draft = self.draft("Ouvert ?", superseded_by=newer)
        entry = self.entry("Ouvert ?", superseded_by=newer)
        assert list(answers_to_review()) == [draft]
        assert list(entries_to_review()) == [entry]

    def test_a_draft_of_a_group_waits_with_its_group_alone_and_a_validated_answer_here_too(self) -> None:
        draft, own = self.draft("Du groupe ?"), self.draft("Seul ?")
        for row in (draft, self.draft("Validée ?", validated_at=timezone.now())):
            self.group(row)
        assert [row.question for row in answers_to_review().order_by("pk")] == [own.question, "Validée ?"]

    def test_a_group_whose_answer_is_withdrawn_is_open_again(self) -> None:
        for place in ("list", "form"):
            row = self.draft(f"Fermé : {place} ?", validated_at=timezone.now())
            group, answered = self.group(row), self.group(row, status=GroupStatus.ANSWERED)
            if place == "list":
                set_status([row], LearnedStatus.OBSOLETE)
            else:
                row.status = LearnedStatus.OBSOLETE
                save_learned(row)
            assert (fresh(group).status, group.response) == (GroupStatus.OPEN, None)
            assert (fresh(answered).status, answered.response) == (GroupStatus.ANSWERED, row)

    def group(self, row: LearnedResponse, status: GroupStatus = GroupStatus.DRAFTED) -> QuestionGroup:
        return QuestionGroup.objects.create(
            agent=row.agent, question=row.question, response=row, status=status, recipe="r", vector=b""
        )
