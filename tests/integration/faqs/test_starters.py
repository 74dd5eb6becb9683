"""First questions: staff's own, else what the content answers."""

from datetime import timedelta

from django.test import TestCase
from django.utils import timezone, translation

from faqs.models import LearnedKind
from faqs.neighbours import starter_questions
from knowledge.models import Document
from tests.factories import add_document, make_agent, make_deployment, make_learned

LOAN = "Combien de temps dure le prêt d’un livre ?"
ENGLISH = "How long may I keep a book?"


class StarterQuestionsTest(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.agent = self.deployment.agent

    def test_lines_of_staff_stand_alone_the_readers_language_first(self) -> None:
        add_document(self.agent)
        self.deployment.suggestions = f"{ENGLISH}\n\n {LOAN} "
        assert starter_questions(self.deployment, 3) == [LOAN, ENGLISH]
        with translation.override("en"):
            assert starter_questions(self.deployment, 1) == [ENGLISH]

    def test_new_agent_offers_what_its_documents_answer(self) -> None:
        add_document(self.agent)
        assert starter_questions(self.deployment, 3) == [
            "Quels sont les horaires d'ouverture de la bibliothèque ?",
            "Combien coûte la carte de lecteur ?",
        ]
        Document.objects.update(enabled=False)
        assert starter_questions(self.deployment, 3) == []

    def test_first_questions_are_of_several_documents(self) -> None:
        for name in ("un", "deux"):
            asked = "".join(f"## Que dit le point {n} de {name} ?\n\nLe {n}.\n\n" for n in (1, 2))
            add_document(self.agent, name=f"{name}.md", text=f"# {name}\n\n{asked}")
        first = starter_questions(self.deployment, 2)
        assert sorted(question.split()[-2] for question in first) == ["deux", "un"]

    def test_validated_answers_come_first_and_only_those_that_stand(self) -> None:
        add_document(self.agent)
        make_learned(self.agent, question=LOAN)
        make_learned(self.agent, question="Bonjour !", kind=LearnedKind.COURTESY)
        yesterday = timezone.localdate() - timedelta(days=1)
        make_learned(self.agent, question="Est-ce ouvert le lundi ?", review_date=yesterday)
        make_learned(question="Où est la piscine ?")
        make_learned(self.agent, question=f"Que faire {'vraiment ' * 20}?")  # too long for a button
        found = starter_questions(self.deployment, 6)
        assert found[0] == LOAN
        assert len(found) == 3

    def test_only_the_readers_language_is_offered_where_there_is_any(self) -> None:
        make_learned(self.agent, question=LOAN)
        assert starter_questions(self.deployment, 3) == [LOAN]
        with translation.override("en"):
            assert starter_questions(self.deployment, 3) == [LOAN]
            make_learned(self.agent, question=ENGLISH)
            assert starter_questions(self.deployment, 3) == [ENGLISH]

    def test_every_agent_of_the_desk_is_heard(self) -> None:
        other = make_agent()
        self.deployment.specialists.create(agent=other)
        make_learned(other, question=LOAN)
        assert starter_questions(self.deployment, 3) == [LOAN]
