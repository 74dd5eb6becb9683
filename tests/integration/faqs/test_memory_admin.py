"""The audit of the memory: list, filters, actions and form."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.test import TestCase
from django.utils import timezone

from agents.admin_base import admin_url
from faqs.learning import report_wrong
from faqs.memory import validate_entries
from faqs.models import CachedResponse, EntryStatus, IndexState, LearnedResponse, StatusReason
from tests.admin_pages import client_of, make_staff, run_action, shown_messages, superuser_client
from tests.constants import override
from tests.factories import fresh, make_agent, make_deployment, make_entry, recall

QUESTION = "Quels sont les horaires de la piscine ?"
LIST = admin_url(CachedResponse, "changelist")


class MemoryAdminTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(memory_threshold=0.7))
        self.client = superuser_client()

    def test_validating_serves_an_entry(self) -> None:
        entry = make_entry(self.deployment, status=EntryStatus.TO_REVIEW)
        response = run_action(self.client, "validate_entries", entry)
        assert "1 réponse validée" in shown_messages(response)
        assert recall(self.deployment, QUESTION).answer is not None

    def test_marking_obsolete_stops_an_entry(self) -> None:
        entry = make_entry(self.deployment)
        run_action(self.client, "mark_obsolete", entry)
        assert (fresh(entry).status, entry.status_reason) == ("obsolete", StatusReason.STAFF)
        assert recall(self.deployment, QUESTION).answer is None

    def test_deleting_in_bulk_deletes_and_is_followed(self) -> None:
        entries = [make_entry(self.deployment, f"Question numéro {n} ?") for n in range(3)]
        assert recall(self.deployment, "Question numéro 1 ?").answer is not None
        run_action(self.client, "delete_selected", *entries, post="yes")
        assert not CachedResponse.objects.exists()
        assert recall(self.deployment, "Question numéro 1 ?").answer is None

    def change(self, entry: CachedResponse, **fields: str) -> Any:
        data = {"question": entry.question, "answer": entry.answer, "review_on": "", **fields}
        return self.client.post(admin_url(CachedResponse, "change", entry.pk), data)

    def test_form_changes_the_answer_that_is_given_and_the_question_it_answers(self) -> None:
        entry = make_entry(self.deployment)
        recall(self.deployment, QUESTION)
        page = self.client.get(admin_url(CachedResponse, "change", entry.pk))
        self.assertContains(page, "Tout le monde")  # not the code of its audience
        assert self.change(entry, answer="De 10 à 19 heures.").status_code == 302
        found = recall(self.deployment, QUESTION)
        assert found.answer is not None
        assert found.answer.text == "De 10 à 19 heures."
        assert fresh(entry).usage_count == 4
        self.change(entry, question="Où est la gare ?")
        assert recall(self.deployment, QUESTION).answer is None
        assert recall(self.deployment, "Où est la gare ?").answer is not None

    def test_form_refuses_a_question_that_is_there_already(self) -> None:
        make_entry(self.deployment, "Où est la gare ?")
        response = self.change(make_entry(self.deployment), question="où est la GARE ?")
        assert response.status_code == 200
        assert "déjà en mémoire" in response.content.decode()


class PromotionTests(TestCase):
    """« Promouvoir en FAQ » : entries of the memory become validated answers, each once."""

    def setUp(self) -> None:
        self.agent = make_agent()
        self.deployment = make_deployment(self.agent)
        self.client = superuser_client()

    def promote_now(self, *entries: CachedResponse) -> str:
        return shown_messages(run_action(self.client, "promote", *entries, confirmed="1"))

    def test_action_asks_before_it_promotes(self) -> None:
        page = run_action(self.client, "promote", make_entry(self.deployment)).content.decode()
        assert QUESTION in page
        assert str(self.agent) in page
        assert 'name="confirmed"' in page
        assert not LearnedResponse.objects.exists()

    def test_confirmed_entry_becomes_a_validated_answer_that_is_served(self) -> None:
        entry = make_entry(self.deployment, answer="De 9 heures à 20 heures [1].")
        assert "1 réponse promue en FAQ" in self.promote_now(entry)
        row = LearnedResponse.objects.get()
        assert (row.agent, row.question) == (self.agent, QUESTION)
        assert row.answer == "De 9 heures à 20 heures."
        assert row.owner == User.objects.get()
        assert row in LearnedResponse.objects.valid().filter(index_state=IndexState.INDEXED)
        assert (fresh(entry).status, entry.superseded_by) == (EntryStatus.OBSOLETE, row)

    def test_answer_that_exists_is_reported_and_not_doubled(self) -> None:
        entry = make_entry(self.deployment)
        other = make_entry(make_deployment(self.agent, slug="autre"), answer="De 8 à 9 heures.")
        assert "1 réponse promue en FAQ" in self.promote_now(entry)
        shown = self.promote_now(entry, other)
        assert "Doublon" in shown
        assert "Contradiction" in shown
        assert "2 réponses n’ont pas été promues" in shown
        assert LearnedResponse.objects.count() == 1

    def test_rejected_entries_are_named_with_their_reason_and_the_others_promoted(self) -> None:
        long = make_entry(self.deployment, answer="a" * 30)
        obsolete = make_entry(self.deployment, "Où est la gare ?", status=EntryStatus.OBSOLETE)
        reported, old, overdue = (make_entry(self.deployment, f"Qui a {name} ?") for name in ("un", "deux", "trois"))
        report_wrong(entry_id=reported.pk, question=reported.question)
        CachedResponse.objects.filter(pk=old.pk).update(confirmed_at=timezone.now() - timedelta(days=181))
        CachedResponse.objects.filter(pk=overdue.pk).update(review_on=timezone.localdate() - timedelta(days=1))
        unread = make_entry(
            self.deployment, "Qui garde les clés ?", status=EntryStatus.TO_REVIEW, status_reason=StatusReason.LEARNED
        )
        with override(QA_MAX_ANSWER_CHARACTERS=29):
            shown = self.promote_now(long, obsolete, reported, old, overdue, unread)
        assert f"« {QUESTION} » : La réponse dépasse 29 caractères" in shown
        for reason in ("Obsolète", "signalée", "trop ancienne", "date de relecture passée"):
            assert f"elle n’est plus donnée ({reason}" in shown
        assert "5 réponses n’ont pas été promues" in shown
        assert LearnedResponse.objects.get().question == unread.question
        validate_entries(CachedResponse.objects.filter(pk__in=[old.pk, overdue.pk]))
        assert "2 réponses promues" in self.promote_now(old, overdue)

    def test_too_many_at_once_are_refused(self) -> None:
        entries = [make_entry(self.deployment, f"Question numéro {n} ?") for n in range(3)]
        with override(FAQ_MAX_PROMOTED=2):
            assert "2 réponses au plus" in self.promote_now(*entries)
        assert not LearnedResponse.objects.exists()

    def test_only_who_may_add_validated_answers_promotes(self) -> None:
        entry = make_entry(self.deployment)
        client = client_of(make_staff("faqs.view_cachedresponse", "faqs.change_cachedresponse", username="lectrice"))
        assert "Promouvoir en FAQ" not in client.get(LIST).content.decode()
        run_action(client, "promote", entry, confirmed="1")
        assert not LearnedResponse.objects.exists()
