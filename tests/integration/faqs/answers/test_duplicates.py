"""What is looked up for a validated answer that staff save: in one embedding, each answer once, the closest reason
first.
"""

from typing import Any
from unittest import mock

from django.test import TestCase

from faqs.answers.duplicates import MAX_QUESTIONS, find_same, find_similar
from faqs.answers.writing import set_status
from faqs.models import LearnedStatus
from knowledge.embeddings.base import embedder
from tests.factories import make_agent, make_learned, make_synonym

POOL = "Combien coûte la piscine ?"


class DuplicatesTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def kinds(self, question: str, answer: str) -> list[tuple[str, bool]]:
        found = find_similar(agent=self.agent, questions=[question], answer=answer)
        return [(each.kind, each.asks_the_same) for each in found]

    def test_same_question_comes_before_one_that_is_only_near(self) -> None:
        make_learned(self.agent, question="Combien coûte l'entrée de la piscine ?", answer="4 €")
        make_learned(self.agent, question=POOL, answer="5 €")
        assert self.kinds(POOL, "6 €") == [("contradiction", True), ("contradiction", False)]
        found = find_same(agent=self.agent, questions=[POOL], answer="6 €")
        assert [each.response.question for each in found] == [POOL]

    def test_answer_that_both_asks_the_same_and_is_near_is_named_once_as_the_same(self) -> None:
        near = "Combien coûte l'entrée de la piscine pour un adulte ?"
        make_learned(self.agent, question=near, phrasings=[POOL], answer="5 €")
        assert self.kinds(POOL, "6 €") == [("contradiction", True)]

    def test_same_figures_in_other_words_are_a_duplicate(self) -> None:
        make_learned(self.agent, question=POOL, answer="L'entrée est à 5 €.")
        assert self.kinds(POOL, "Cinq euros.") == [("duplicate", True)]

    def test_obsolete_answers_contradict_nothing(self) -> None:
        row = make_learned(self.agent, question=POOL, answer="5 €")
        set_status([row], LearnedStatus.OBSOLETE)
        assert self.kinds("Combien coûte l'entrée de la piscine ?", "6 €") == []

    def test_questions_are_embedded_at_once_and_no_more_than_the_most(self) -> None:
        make_learned(self.agent, question=POOL, answer="5 €")
        model = embedder()
        with mock.patch.object(type(model), "embed", autospec=True, side_effect=type(model).embed) as embed:
            many = [f"{POOL} {number}" for number in range(MAX_QUESTIONS + 5)]
            find_similar(agent=self.agent, questions=many, answer="6 €")
        assert [len(call.args[1]) for call in embed.call_args_list] == [MAX_QUESTIONS]


class SynonymTests(TestCase):
    def test_question_in_the_other_form_is_the_same(self) -> None:
        agent = make_agent()
        make_learned(agent, question="Comment relever ma boîte à lettres ?", answer="Avec la clé.")
        asked: dict[str, Any] = {"agent": agent, "questions": ["Comment relever ma BAL ?"], "answer": "Le soir."}
        assert find_same(**asked) == []
        make_synonym(agent, "BAL", "boîte à lettres")
        (found,) = find_same(**asked)
        assert found.kind == "contradiction"
