"""A new acronym or synonym beside validated answers: those that hold it take effect anew."""

from django.test import TestCase

from faqs.answer_points import settle_again
from faqs.models import LearnedResponse
from knowledge.acronyms import Form, Forms
from knowledge.models import Document
from tests.factories import add_document, make_agent, make_learned

POOL = "Combien coûte la piscine ?"


class SettleAgainTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def test_answers_that_hold_a_form_take_effect_anew(self) -> None:
        pool = make_learned(self.agent, question=POOL, answer="3 €")
        make_learned(self.agent, question="Où est la mairie ?", answer="Place du marché.")
        settle_again(self.agent.pk, Forms((Form("piscine", "centre nautique"),)))
        assert list(LearnedResponse.objects.unsettled()) == [pool]

    def test_acronym_that_a_document_teaches_makes_them_so_once(self) -> None:
        row = make_learned(self.agent, question="Où relever la BAL ?", answer="Au bureau.")
        text = "# Courrier\n\nLa boîte à lettres (BAL) est relevée le soir.\n"
        with self.captureOnCommitCallbacks(execute=True):
            add_document(self.agent, name="courrier.md", text=text)
        assert list(LearnedResponse.objects.unsettled()) == [row]
        LearnedResponse.objects.update(settled_revision=row.revision)
        with self.captureOnCommitCallbacks(execute=True):
            add_document(self.agent, name="encore.md", text=text)
        assert not LearnedResponse.objects.unsettled().exists()
        assert Document.objects.count() == 2
