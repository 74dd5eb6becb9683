"""The forms of an agent: taught by its documents, decided by its staff, used by its questions."""

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import TestCase
from django.urls import reverse

from chat.models import AnswerSource
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from knowledge.indexing.path import update_documents
from knowledge.models import Chunk, Document, SynonymState
from knowledge.synonyms import forms_of
from tests.admin_pages import run_action
from tests.factories import add_document, make_agent, make_deployment, make_entry, make_learned, make_synonym

LONG = "reconnaissance de la qualité de travailleur handicapé"
TEXT = f"# Droits\n\nLa {LONG} (RQTH) ouvre des droits au salarié et à son employeur.\n"
SHORT_QUESTION = "Comment demander la RQTH ?"
LONG_QUESTION = f"Comment demander la {LONG} ?"


class TaughtByDocumentsTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.document = add_document(self.agent, text=TEXT)

    def rows(self) -> list[tuple[str, str, str]]:
        return list(self.agent.synonyms.values_list("short", "long", "state"))

    def test_indexing_teaches_what_the_document_spells_out(self) -> None:
        assert self.rows() == [("RQTH", LONG, SynonymState.FOUND)]
        assert list(self.agent.synonyms.get().documents.all()) == [self.document]
        assert forms_of([self.agent.pk]).other_reading(SHORT_QUESTION) == LONG_QUESTION

    def test_one_agent_learns_nothing_for_another(self) -> None:
        assert forms_of([make_agent().pk]).other_reading(SHORT_QUESTION) == ""

    def test_document_that_says_it_no_more_takes_it_away(self) -> None:
        add_document(self.agent, text="# Droits\n\nRien ici ne parle de sigles.\n")
        assert self.rows() == []
        assert forms_of([self.agent.pk]).other_reading(SHORT_QUESTION) == ""

    def test_deleted_document_takes_away_what_only_it_taught(self) -> None:
        other = add_document(self.agent, name="other.md", text=TEXT)
        self.document.delete()
        assert self.rows() == [("RQTH", LONG, SynonymState.FOUND)]
        Document.objects.filter(pk=other.pk).delete()
        assert self.rows() == []

    def test_deleted_document_leaves_what_staff_confirmed(self) -> None:
        self.agent.synonyms.update(state=SynonymState.CONFIRMED)
        self.document.delete()
        assert self.rows() == [("RQTH", LONG, SynonymState.CONFIRMED)]

    def test_refused_pair_is_not_used_and_not_taught_again(self) -> None:
        row = self.agent.synonyms.get()
        row.state = SynonymState.REFUSED
        row.save()
        add_document(self.agent, name="other.md", text=TEXT)
        assert self.rows() == [("RQTH", LONG, SynonymState.REFUSED)]
        assert forms_of([self.agent.pk]).other_reading(SHORT_QUESTION) == ""

    def test_passage_that_staff_switched_off_teaches_nothing(self) -> None:
        Chunk.objects.filter(document=self.document).update(enabled=False)
        update_documents(agent=self.agent, documents=[self.document])
        assert self.rows() == []


class ReadingTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent, text=TEXT)
        self.deployment = make_deployment(
            self.agent, config_overlay={"memory_threshold": 0.6, "memory_learning": "off"}
        )

    def ask(self, question: str) -> TurnResult:
        async def ignore(_event: object) -> None:
            """Nobody follows this turn."""

        return async_to_sync(run_turn)(TurnRequest(self.deployment.pk, question, "fr"), ignore)

    def test_answer_stored_for_one_form_is_given_to_the_other(self) -> None:
        make_learned(self.agent, question=LONG_QUESTION, answer="À la maison départementale.")
        result = self.ask(SHORT_QUESTION)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "maison départementale" in result.answer.text
        (line,) = [line for line in result.trace.lines if line["step"] == "embedding"]
        assert line["detail"] == LONG_QUESTION

    def add_question(self, question: str, answer: str) -> None:
        add_document(self.agent, name="terms.md", text=f"# Termes\n\n## {question}\n\n{answer}\n")

    def test_stored_question_goes_before_one_that_only_a_synonym_makes_the_same(self) -> None:
        make_learned(self.agent, question="Le stationnement est-il gratuit le dimanche ?", answer="Oui.")
        make_learned(self.agent, question="Le stationnement est-il payant le dimanche ?", answer="Non.")
        make_synonym(self.agent, "payant", "gratuit")
        result = self.ask("Le stationnement est-il gratuit le dimanche ?")
        assert result.answer.text.startswith("Oui.")
        result = self.ask("Le stationnement est-il payant le dimanche ?")
        assert result.answer.text.startswith("Non.")

    def test_question_of_a_document_goes_before_a_validated_answer_to_a_synonym(self) -> None:
        make_synonym(self.agent, "agent", "salarié")
        make_learned(self.agent, question="Qu'est-ce qu'un agent ?", answer="Une personne.")
        self.add_question("Qu'est-ce qu'un salarié ?", "Un employé.")
        result = self.ask("Qu'est-ce qu'un salarié ?")
        assert result.answer.text.startswith("Un employé.")

    def test_memory_of_a_synonym_does_not_answer_a_stored_question(self) -> None:
        make_synonym(self.agent, "agent", "salarié")
        entry = make_entry(self.deployment, question="Qu'est-ce qu'un agent ?", answer="Une personne.")
        result = self.ask("Qu'est-ce qu'un salarié ?")
        assert result.answer.source == AnswerSource.MEMORY_GUARD
        self.add_question("Qu'est-ce qu'un salarié ?", "Un employé.")
        result = self.ask("Qu'est-ce qu'un salarié ?")
        assert result.answer.text.startswith("Un employé.")
        result = self.ask(entry.question)
        assert result.answer.source == AnswerSource.MEMORY_GUARD

    def test_memory_of_the_words_goes_before_that_of_a_synonym(self) -> None:
        make_synonym(self.agent, "payant", "gratuit")
        for word, answer in (("payant", "Non."), ("gratuit", "Oui.")):
            make_entry(self.deployment, question=f"Est-ce {word} le dimanche ?", answer=answer)
        result = self.ask("Est-ce que c'est gratuit le dimanche ?")
        assert result.answer.text == "Oui."


class SynonymPagesTests(TestCase):
    def setUp(self) -> None:
        self.client.force_login(User.objects.create_superuser("root"))
        self.agent = make_agent()
        self.document = add_document(self.agent, text=TEXT)
        self.row = self.agent.synonyms.get()
        self.list = reverse("admin:knowledge_synonym_changelist")

    def post(self, **fields: object) -> None:
        page = reverse("admin:knowledge_synonym_change", args=[self.row.pk])
        assert self.client.post(page, fields).status_code == 302

    def test_refusing_takes_effect_at_once(self) -> None:
        assert forms_of([self.agent.pk]).other_reading(SHORT_QUESTION)
        run_action(self.client, "refuse", self.row)
        assert forms_of([self.agent.pk]).other_reading(SHORT_QUESTION) == ""

    def test_correction_is_confirmed_and_the_wrong_pair_stays_refused(self) -> None:
        self.post(short="RQTH", long="reconnaissance comme travailleur handicapé")
        states = dict(self.agent.synonyms.values_list("long", "state"))
        assert states == {
            "reconnaissance comme travailleur handicapé": SynonymState.CONFIRMED,
            LONG: SynonymState.REFUSED,
        }
        add_document(self.agent, name="other.md", text=TEXT)
        assert dict(self.agent.synonyms.values_list("long", "state")) == states

    def test_staff_add_a_synonym_once(self) -> None:
        page = reverse("admin:knowledge_synonym_add")
        fields = {"agent": self.agent.pk, "short": "BAL", "long": "boîte à lettres"}
        assert self.client.post(page, fields).status_code == 302
        assert self.agent.synonyms.get(short="BAL").state == SynonymState.CONFIRMED
        again = {**fields, "long": "Boite a lettres"}
        self.assertContains(self.client.post(page, again), "existe déjà")
        same = {**fields, "long": "bal"}
        self.assertContains(self.client.post(page, same), "sont les mêmes")

    def test_correction_that_would_make_two_of_one_pair_is_refused(self) -> None:
        page = reverse("admin:knowledge_synonym_change", args=[self.row.pk])
        make_synonym(self.agent, "BAL", "boîte à lettres")
        self.assertContains(self.client.post(page, {"short": "BAL", "long": "boîte à lettres"}), "existe déjà")
        self.assertContains(self.client.post(page, {"short": "payant", "long": "gratuit"}), "contraire")

    def test_small_words_and_opposites_are_no_synonyms(self) -> None:
        page = reverse("admin:knowledge_synonym_add")
        refused = [
            ("le", "la", "mot outil"),
            ("LE", "la", "mot outil"),
            ("piscine", "pour", "mot outil"),
            ("payant", "gratuit", "contraire"),
            ("Payante", "gratuites", "contraire"),
        ]
        for short, long, reason in refused:
            fields = {"agent": self.agent.pk, "short": short, "long": long}
            self.assertContains(self.client.post(page, fields), reason)
        # An acronym may look like a small word.
        fields = {"agent": self.agent.pk, "short": "PAS", "long": "prélèvement à la source"}
        assert self.client.post(page, fields).status_code == 302
