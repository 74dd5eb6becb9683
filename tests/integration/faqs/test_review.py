"""« À relire »: one list of the memory's and the FAQ's answers that wait for a person."""

from datetime import timedelta
from typing import Any

from django.test import TestCase, override_settings
from django.utils import timezone

from agents.admin_base import admin_url
from faqs.models import (
    AnswerChunk,
    CachedResponse,
    EntryStatus,
    LearnedResponse,
    LearnedStatus,
    StatusReason,
)
from faqs.review import answers_to_review, page_to_review
from tests.admin_pages import (
    client_of,
    make_staff,
    queries_with_one_and_ten_rows,
    shown_messages,
    superuser_client,
)
from tests.factories import make_deployment, make_entry, make_learned


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
        draft.refresh_from_db()
        assert draft.status == LearnedStatus.TO_REVIEW
        assert client_of(make_staff("agents.view_agent")).get(self.address).status_code == 403
        assert entry.status == EntryStatus.TO_REVIEW

    @override_settings(REVIEW_PAGE_ANSWERS=2)
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

    def test_queries_do_not_grow_with_the_list(self) -> None:
        numbers = iter(range(100))

        def make_row() -> None:
            number = next(numbers)
            self.entry(f"Apprise {number} ?")
            self.draft(f"Brouillon {number} ?")

        one, ten = queries_with_one_and_ten_rows(superuser_client(), self.address, make_row)
        assert one == ten
