"""A new synonym beside validated answers: those that it would set against each other are named before it is saved."""

from django.test import TestCase

from agents.admin_base import admin_url
from faqs.answer_points import find_conflicts, settle_again
from faqs.models import LearnedResponse
from knowledge.acronyms import Form, Forms
from knowledge.models import Document, Synonym
from tests.admin_pages import superuser_client
from tests.factories import add_document, make_agent, make_learned

POOL, RINK = "Combien coûte la piscine ?", "Combien coûte la patinoire ?"


class ConflictTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def found(self, short: str = "piscine", long: str = "patinoire") -> list[tuple[str, str]]:
        return list(find_conflicts(self.agent.pk, short, long))

    def test_questions_with_different_answers_that_would_be_one_are_found(self) -> None:
        make_learned(self.agent, question=POOL, answer="3 €")
        make_learned(self.agent, question="Et le reste ?", phrasings=[RINK], answer="7 €")
        assert self.found() == [(POOL, RINK)]

    def test_questions_with_one_answer_are_no_conflict(self) -> None:
        make_learned(self.agent, question=POOL, answer="3 €")
        make_learned(self.agent, question=RINK, answer="3 €")
        assert self.found() == []

    def test_questions_that_ask_something_else_anyway_are_no_conflict(self) -> None:
        make_learned(self.agent, question=POOL, answer="3 €")
        make_learned(self.agent, question="Quand ouvre la patinoire ?", answer="À midi.")
        assert self.found() == []

    def test_admin_refuses_the_pair_and_names_the_questions(self) -> None:
        make_learned(self.agent, question=POOL, answer="3 €")
        make_learned(self.agent, question=RINK, answer="7 €")
        data = {"agent": self.agent.pk, "short": "piscine", "long": "patinoire"}
        page = superuser_client().post(admin_url(Synonym, "add"), data)
        self.assertContains(page, "deviendraient une seule")
        self.assertContains(page, RINK)
        assert not Synonym.objects.exists()


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
