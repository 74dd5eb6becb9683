"""« À relire »: one list of the memory's and the FAQ's answers that wait for a person."""

from datetime import timedelta
from typing import Any

from django.test import TestCase
from django.utils import timezone

from agents.admin_base import admin_url
from faqs.answers import save_learned
from faqs.models import (
    AnswerChunk,
    CachedResponse,
    EntryStatus,
    GroupStatus,
    LearnedResponse,
    LearnedStatus,
    QuestionGroup,
    StatusReason,
)
from faqs.review import answers_to_review, decide, entries_to_review, page_to_review
from tests.admin_pages import client_of, make_staff, queries_with_one_and_ten_rows, shown_messages, superuser_client
from tests.constants import override
from tests.factories import fresh, make_deployment, make_entry, make_learned


class ReviewTest(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.address = admin_url(LearnedResponse, "review")

    def entry(self, question: str, **overrides: Any) -> CachedResponse:
        fields = {"status": EntryStatus.TO_REVIEW, "status_reason": StatusReason.LEARNED}
        return make_entry(self.deployment, question, "Oui.", **{**fields, **overrides})

    def draft(self, question: str, **overrides: Any) -> LearnedResponse:
        fields = {"status": LearnedStatus.TO_REVIEW, "answer": "Oui.", **overrides}
        return make_learned(self.deployment.agent, question=question, **fields)

    def test_both_tables_stand_in_one_list_the_longest_waiting_first(self) -> None:
        draft, entry = self.draft("Brouillon ?"), self.entry("Apprise ?")
        long_ago = timezone.now() - timedelta(days=9)
        LearnedResponse.objects.filter(pk=draft.pk).update(updated_at=long_ago)
        page = superuser_client().get(self.address)
        rows = [row["waiting"].row for row in page.context["rows"]]
        assert rows == [draft, entry]
        self.assertContains(page, "Apprise, en attente d’une relecture")

    def test_what_time_has_overtaken_may_be_looked_at_alone(self) -> None:
        self.entry("Apprise ?")
        stale = self.entry("Changée ?", status_reason=StatusReason.CHUNK_CHANGED)
        shown, has_more = page_to_review(1, tables=["memory", "faq"], stale=True)
        assert ([each.row for each in shown], has_more) == ([stale], False)

    def test_an_answer_of_which_a_passage_went_is_overtaken_and_others_are_not(self) -> None:
        late, lost, draft = self.draft("En retard ?"), self.draft("Perdue ?"), self.draft("Neuve ?")
        yesterday = timezone.localdate() - timedelta(days=1)
        LearnedResponse.objects.filter(pk=late.pk).update(review_date=yesterday)
        AnswerChunk.objects.create(response=lost, chunk_id=987_654, fingerprint="x")
        assert set(answers_to_review(stale=True)) == {late, lost}
        assert set(answers_to_review(stale=False)) == {draft}

    def test_several_are_validated_at_once(self) -> None:
        draft, entry, other = self.draft("Brouillon ?"), self.entry("Apprise ?"), self.entry("X ?")
        data = {"answer": [f"faq-{draft.pk}", f"memory-{entry.pk}"], "decision": "validate"}
        response = superuser_client().post(self.address, data, follow=True)
        assert "2 réponses validées" in shown_messages(response)
        for row in (draft, entry, other):
            row.refresh_from_db()
        assert (draft.status, entry.status, other.status) == ("valid", "valid", "to_review")

    def test_what_is_withdrawn_is_not_given_any_more(self) -> None:
        draft, entry = self.draft("Brouillon ?"), self.entry("Apprise ?")
        data = {"answer": [f"faq-{draft.pk}", f"memory-{entry.pk}"], "decision": "withdraw"}
        superuser_client().post(self.address, data)
        draft.refresh_from_db()
        entry.refresh_from_db()
        assert (draft.status, entry.status) == (LearnedStatus.OBSOLETE, EntryStatus.OBSOLETE)

    def test_an_empty_draft_stays_and_is_said(self) -> None:
        draft = self.draft("Vide ?", answer="")
        data = {"answer": [f"faq-{draft.pk}"], "decision": "validate"}
        response = superuser_client().post(self.address, data, follow=True)
        assert "1 réponse n’a pas changé" in shown_messages(response)

    def test_nothing_ticked_and_nonsense_change_nothing(self) -> None:
        client = superuser_client()
        assert "Cochez" in shown_messages(client.post(self.address, follow=True))
        data = {"answer": ["faq-", "memory-9" + "9" * 40, "x", "faq-abc"]}
        assert client.post(self.address, data).status_code == 302

    def test_each_sees_and_decides_on_what_their_rights_open(self) -> None:
        draft, entry = self.draft("Brouillon ?"), self.entry("Apprise ?")
        viewer = client_of(make_staff("faqs.view_learnedresponse", "faqs.change_cachedresponse"))
        rows = viewer.get(self.address).context["rows"]
        assert [(row["waiting"].row, row["may_decide"]) for row in rows] == [(draft, False)]
        data = {"answer": [f"faq-{draft.pk}"]}
        viewer.post(self.address, data)
        assert fresh(draft).status == LearnedStatus.TO_REVIEW
        assert client_of(make_staff("agents.view_agent")).get(self.address).status_code == 403
        assert entry.status == EntryStatus.TO_REVIEW

    @override(REVIEW_PAGE_ANSWERS=2)
    def test_pages_follow_one_another_without_a_row_twice(self) -> None:
        for number in range(5):
            self.entry(f"Apprise {number} ?")
            self.draft(f"Brouillon {number} ?")
        found: list[str] = []
        for page in range(1, 6):
            shown, has_more = page_to_review(page, tables=["memory", "faq"])
            found += [each.key for each in shown]
            assert has_more is (page < 5)
        assert len(set(found)) == 10

    def test_what_a_standing_answer_replaced_is_not_offered_to_be_put_back(self) -> None:
        newer = make_learned(self.deployment.agent, question="Ouvert ?", answer="Dès 7 heures.")
        voucher = self.entry("Fermé ?", status=EntryStatus.VALID)
        replaced = [
            self.draft("Ouvert ?", superseded_by=newer),
            self.draft("Fermé ?", superseded_by_entry=voucher),
            self.entry("Ouvert ?", superseded_by=newer),
        ]
        assert not answers_to_review().exists()
        assert not entries_to_review().exists()
        keys = [f"faq-{replaced[0].pk}", f"faq-{replaced[1].pk}", f"memory-{replaced[2].pk}"]
        assert decide(keys, is_valid=True) == 0
        assert fresh(newer).status == LearnedStatus.VALID

    def test_what_was_replaced_waits_again_once_nothing_stands_in_its_place(self) -> None:
        newer = make_learned(self.deployment.agent, question="Ouvert ?", status=LearnedStatus.OBSOLETE)
        draft = self.draft("Ouvert ?", superseded_by=newer)
        entry = self.entry("Ouvert ?", superseded_by=newer)
        assert list(answers_to_review()) == [draft]
        assert list(entries_to_review()) == [entry]

    def test_a_draft_of_a_group_waits_with_its_group_alone(self) -> None:
        draft, own = self.draft("Du groupe ?"), self.draft("Seul ?")
        self.group(draft)
        assert list(answers_to_review()) == [own]

    def test_a_validated_answer_that_a_group_leads_to_is_still_read_again_here(self) -> None:
        row = self.draft("Validée ?", validated_at=timezone.now())
        self.group(row)
        assert list(answers_to_review()) == [row]

    def test_a_group_whose_answer_is_withdrawn_is_open_again(self) -> None:
        for withdraw in (self.withdraw_in_the_list, self.withdraw_in_its_form):
            row = self.draft(f"{withdraw.__name__} ?", validated_at=timezone.now())
            group, answered = self.group(row), self.group(row, status=GroupStatus.ANSWERED)
            withdraw(row)
            group.refresh_from_db()
            answered.refresh_from_db()
            assert (group.status, group.response) == (GroupStatus.OPEN, None)
            assert (answered.status, answered.response) == (GroupStatus.ANSWERED, row)

    def withdraw_in_the_list(self, row: LearnedResponse) -> None:
        assert decide([f"faq-{row.pk}"], is_valid=False) == 1

    def withdraw_in_its_form(self, row: LearnedResponse) -> None:
        row.status = LearnedStatus.OBSOLETE
        save_learned(row)

    def group(self, row: LearnedResponse, status: GroupStatus = GroupStatus.DRAFTED) -> QuestionGroup:
        return QuestionGroup.objects.create(
            agent=row.agent, question=row.question, response=row, status=status, recipe="r", vector=b""
        )

    def test_queries_do_not_grow_with_the_list(self) -> None:
        numbers = iter(range(100))

        def make_row() -> None:
            number = next(numbers)
            self.entry(f"Apprise {number} ?")
            self.draft(f"Brouillon {number} ?")

        one, ten = queries_with_one_and_ten_rows(superuser_client(), self.address, make_row)
        assert one == ten
