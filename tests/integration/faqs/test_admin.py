"""The FAQ editor: what is saved, contradictions, bulk actions."""

from typing import Any
from unittest import mock

from django.test import TestCase

from agents.admin_base import admin_url
from faqs.answers import save_learned
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from knowledge.errors import VectorStoreUnavailableError
from tests.admin_pages import run_action, shown_messages, superuser_client
from tests.factories import fresh, make_agent, make_learned, store_answer

QUESTION = "Combien coûte la carte de lecteur ?"


class EditorTest(TestCase):
    def setUp(self) -> None:
        self.client, self.agent = superuser_client(), make_agent()

    def save(self, row: LearnedResponse | None = None, **fields: Any) -> Any:
        data = {
            "agent": self.agent.pk,
            "kind": "faq",
            "question": QUESTION,
            "answer": "12 euros.",
            "category": "FAQ",
            "status": "valid",
            "status_reason": "",
            "owner": "",
            "review_date": "",
            "phrasing_lines": "",
            **fields,
        }
        address = admin_url(LearnedResponse, "change", row.pk) if row else admin_url(LearnedResponse, "add")
        return self.client.post(address, data, follow=True)

    def test_saved_answer_has_its_phrasings_and_is_served_at_once(self) -> None:
        with mock.patch("faqs.answer_points.nudge") as nudge:
            with self.captureOnCommitCallbacks(execute=True):
                response = self.save(phrasing_lines=f"Quel tarif ?\n\nquel  TARIF\n{QUESTION.lower()}\nQuel prix ?")
        row = LearnedResponse.objects.get()
        assert [phrasing.text for phrasing in row.phrasings.all()] == ["Quel tarif ?", "Quel prix ?"]
        assert row.index_state == IndexState.INDEXED
        assert response.status_code == 200
        # A worker looks for close questions in the documents.
        nudge.assert_called_once_with([row.pk])

    def test_edited_phrasing_keeps_the_points_of_the_others(self) -> None:
        row = make_learned(self.agent, question=QUESTION, phrasings=["Quel tarif ?", "Prix ?"])
        kept = row.phrasings.get(text="Prix ?").point_id
        self.save(row, phrasing_lines="Prix ?\nQuel coût ?")
        assert row.phrasings.get(text="Prix ?").point_id == kept
        assert not row.phrasings.filter(text="Quel tarif ?").exists()

    def test_what_cannot_be_kept_is_said_on_the_form(self) -> None:
        page = self.save(answer="r" * 6001).content.decode()
        assert "6000" in page
        assert not LearnedResponse.objects.exists()

    def test_same_question_with_another_answer_is_shown_as_a_contradiction_and_saved_when_told(self) -> None:
        make_learned(self.agent, question="Autre chose ?", phrasings=[QUESTION], answer="15 euros.")
        page = self.save().content.decode()
        assert "Contradiction" in page
        assert LearnedResponse.objects.count() == 1
        draft = make_learned(self.agent, question="Brouillon ?", status=LearnedStatus.TO_REVIEW)
        refused = self.save(draft, status="to_review", _approve="1")
        self.assertContains(refused, "Contradiction")
        self.assertContains(refused, "Enregistrer et approuver")  # The way on is still there.
        self.save(draft, save_anyway="on")
        assert fresh(draft).question == QUESTION

    def test_answer_that_a_colleague_changed_meanwhile_is_not_overwritten(self) -> None:
        row = make_learned(self.agent, question="Où garer un vélo ?", answer="Devant.")
        seen = row.updated_at.isoformat()
        row.answer = "Derrière."
        save_learned(row, by=None)
        fields = {"question": "Où garer un vélo ?", "answer": "Nulle part.", "seen": seen}
        page = self.save(row, **fields).content.decode()
        assert "a changé depuis l’ouverture de la page" in page
        assert "Derrière." in page
        assert fresh(row).answer == "Derrière."
        self.save(row, **{**fields, "seen": row.updated_at.isoformat()})
        assert fresh(row).answer == "Nulle part."

    def test_row_is_no_duplicate_of_itself_nor_of_what_is_obsolete_or_elsewhere(self) -> None:
        row = make_learned(self.agent, question=QUESTION, answer="15 euros.")
        make_learned(make_agent(), question=QUESTION, answer="20 euros.")
        self.save(row, status="obsolete")
        assert fresh(row).status == LearnedStatus.OBSOLETE
        self.save()
        assert LearnedResponse.objects.count() == 3

    def test_comparison_that_cannot_be_made_is_said_and_the_answer_is_kept(self) -> None:
        make_learned(self.agent)
        with mock.patch("faqs.neighbours.vector_store", side_effect=VectorStoreUnavailableError("down")):
            response = self.save()
        assert "sans comparaison" in shown_messages(response)
        assert LearnedResponse.objects.filter(question=QUESTION).exists()


class ActionsTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    def test_answers_are_taken_out_of_service_and_back_in_bulk(self) -> None:
        rows = [make_learned(), make_learned()]
        run_action(self.client, "mark_obsolete", *rows)
        assert LearnedResponse.objects.filter(status=LearnedStatus.OBSOLETE).count() == 2
        run_action(self.client, "activate", *rows)
        assert LearnedResponse.objects.filter(status=LearnedStatus.VALID).count() == 2

    def test_empty_draft_is_not_made_valid(self) -> None:
        draft = store_answer(status=LearnedStatus.TO_REVIEW, agent=make_agent(), question=QUESTION)
        response = run_action(self.client, "activate", draft, make_learned())
        assert "1 réponse n’a pas été validée" in shown_messages(response)

    def test_export_is_a_csv_file(self) -> None:
        row = make_learned(question="=Prix ?", phrasings=["Tarif ?"])
        response = run_action(self.client, "export_selected", row)
        assert response["Content-Type"].startswith("text/csv")
        text = response.content.decode()
        assert text == 'question,answer,category\r\n"\'=Prix ?\nTarif ?",Au premier étage.,FAQ\r\n'
