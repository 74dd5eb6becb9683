"""The audit of the memory: list, filters, actions, form, and the tester."""

from typing import Any

from django.test import TestCase
from django.urls import reverse

from agents.admin_base import admin_url
from faqs.models import CachedResponse, DeletedResponse, EntryStatus, StatusReason, WrongPair
from knowledge.models import Chunk
from tests.admin_pages import (
    client_of,
    make_staff,
    queries_with_one_and_ten_rows,
    shown_messages,
    superuser_client,
)
from tests.factories import make_agent, make_deployment, make_entry, make_library, recall, source_of

QUESTION = "Quels sont les horaires de la piscine ?"
LIST = admin_url(CachedResponse, "changelist")


class MemoryAdminTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment(make_agent(memory_threshold=0.7))
        self.client = superuser_client()

    def act(self, action: str, *entries: CachedResponse) -> Any:
        data: dict[str, Any] = {"action": action, "_selected_action": [e.pk for e in entries]}
        return self.client.post(LIST, data, follow=True)

    def test_list_is_searched_and_filtered(self) -> None:
        make_entry(self.deployment)
        make_entry(self.deployment, "Où est la gare ?", status=EntryStatus.TO_REVIEW)
        for query, count in (
            ({}, 2),
            ({"q": "gare"}, 1),
            ({"status__exact": "valid"}, 1),
            ({"deployment__id__exact": self.deployment.pk}, 2),
            ({"embedding_model": "hashing"}, 2),
            ({"created_at_from": "2001-01-01", "created_at_to": "2001-02-01"}, 0),
        ):
            response = self.client.get(LIST, query)
            assert response.context["cl"].result_count == count, query

    def test_list_takes_the_same_queries_for_one_row_and_for_ten(self) -> None:
        numbers = iter(range(20))
        one, ten = queries_with_one_and_ten_rows(
            self.client, LIST, lambda: make_entry(self.deployment, f"Question {next(numbers)} ?")
        )
        assert one == ten

    def test_pages_are_closed_without_the_right(self) -> None:
        entry = make_entry(self.deployment)
        client = client_of(make_staff("knowledge.view_document"))
        tester = reverse("admin:faqs_cachedresponse_test")
        for address in (LIST, admin_url(CachedResponse, "change", entry.pk), tester):
            assert client.get(address).status_code == 403

    def test_validating_serves_an_entry(self) -> None:
        entry = make_entry(self.deployment, status=EntryStatus.TO_REVIEW)
        response = self.act("validate_entries", entry)
        assert "1 réponse validée" in shown_messages(response)
        assert recall(self.deployment, QUESTION).answer is not None

    def test_marking_obsolete_stops_an_entry(self) -> None:
        entry = make_entry(self.deployment)
        self.act("mark_obsolete", entry)
        entry.refresh_from_db()
        assert (entry.status, entry.status_reason) == ("obsolete", StatusReason.STAFF)
        assert recall(self.deployment, QUESTION).answer is None

    def test_reporting_stops_an_entry_and_keeps_the_pair(self) -> None:
        entry = make_entry(self.deployment)
        self.act("report_wrong", entry)
        assert WrongPair.objects.get().response == entry
        assert recall(self.deployment, QUESTION).answer is None

    def test_deleting_in_bulk_deletes_and_is_followed(self) -> None:
        entries = [make_entry(self.deployment, f"Question numéro {n} ?") for n in range(3)]
        assert recall(self.deployment, "Question numéro 1 ?").answer is not None
        data = {
            "action": "delete_selected",
            "_selected_action": [entry.pk for entry in entries],
            "post": "yes",
        }
        self.client.post(LIST, data)
        assert not CachedResponse.objects.exists()
        assert DeletedResponse.objects.count() == 3
        assert recall(self.deployment, "Question numéro 1 ?").answer is None

    def test_deleting_one_entry_by_its_form(self) -> None:
        entry = make_entry(self.deployment)
        self.client.post(admin_url(CachedResponse, "delete", entry.pk), {"post": "yes"})
        assert not CachedResponse.objects.exists()
        assert recall(self.deployment, QUESTION).answer is None

    def change(self, entry: CachedResponse, **fields: str) -> Any:
        data = {"question": entry.question, "answer": entry.answer, "review_on": "", **fields}
        return self.client.post(admin_url(CachedResponse, "change", entry.pk), data)

    def test_form_changes_the_answer_that_is_given(self) -> None:
        entry = make_entry(self.deployment)
        recall(self.deployment, QUESTION)
        assert self.change(entry, answer="De 10 à 19 heures.").status_code == 302
        found = recall(self.deployment, QUESTION)
        assert found.answer is not None
        assert found.answer.text == "De 10 à 19 heures."
        entry.refresh_from_db()
        assert entry.usage_count == 4

    def test_form_that_changes_the_question_changes_what_it_answers(self) -> None:
        entry = make_entry(self.deployment)
        self.change(entry, question="Où est la gare ?")
        assert recall(self.deployment, QUESTION).answer is None
        assert recall(self.deployment, "Où est la gare ?").answer is not None

    def test_form_refuses_a_question_that_is_there_already(self) -> None:
        make_entry(self.deployment, "Où est la gare ?")
        response = self.change(make_entry(self.deployment), question="où est la GARE ?")
        assert response.status_code == 200
        assert "déjà en mémoire" in response.content.decode()

    def test_form_shows_where_an_entry_comes_from(self) -> None:
        deployment = make_library()
        first, second = Chunk.objects.order_by("pk")[:2]
        entry = make_entry(deployment, sources=[source_of(first), source_of(second)])
        second.delete()
        page = self.client.get(admin_url(CachedResponse, "change", entry.pk)).content.decode()
        assert admin_url(Chunk, "change", first.pk) in page
        assert "supprimé" in page

    def test_tester_shows_scores_verdicts_and_reasons_and_writes_nothing(self) -> None:
        entry = make_entry(self.deployment, "Combien coûte la carte en 2023 ?", "12 euros.")
        make_entry(self.deployment, "Où est la gare ?")
        address = reverse("admin:faqs_cachedresponse_test")
        assert self.client.get(address).status_code == 200
        data = {"deployment": self.deployment.pk, "question": "Combien coûte la carte en 2024 ?"}
        page = self.client.post(address, data).content.decode()
        assert "Aucune réponse ne serait donnée" in page
        assert "2023 ≠ 2024" in page
        assert "sous le seuil" in page
        data["question"] = entry.question
        page = self.client.post(address, data).content.decode()
        assert "Une réponse serait donnée" in page
        entry.refresh_from_db()
        assert entry.usage_count == 0

    def test_tester_says_that_the_memory_is_off(self) -> None:
        make_agent()
        deployment = make_deployment()
        make_entry(deployment)
        address = reverse("admin:faqs_cachedresponse_test")
        data = {"deployment": deployment.pk, "question": QUESTION}
        page = self.client.post(address, data).content.decode()
        assert "La mémoire ne répond pas" in page
        assert "1,0000" in page
