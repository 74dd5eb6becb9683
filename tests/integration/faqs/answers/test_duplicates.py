"""What is looked up for a validated answer that staff save: in one embedding, each answer once, other answers first."""

from typing import Any
from unittest import mock

from django.test import TestCase

from faqs.answers import save_learned
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from faqs.neighbours import MAX_QUESTIONS, find_similar
from knowledge.embeddings.base import embedder
from tests.factories import make_agent, make_learned, make_synonym, store_answer

POOL = "Combien coûte la piscine ?"
REWORDED = "Quel est le prix de la piscine ?"


class DuplicatesTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def kinds(self, question: str, answer: str) -> list[str]:
        return [each.kind for each in find_similar(agent=self.agent, questions=[question], answer=answer)]

    def test_another_answer_to_the_question_comes_before_the_same_answer(self) -> None:
        make_learned(self.agent, question=POOL, answer="6 €")
        make_learned(self.agent, question="Piscine ?", phrasings=[POOL], answer="5 €")
        assert self.kinds(POOL, "6 €") == ["contradiction", "duplicate"]

    def test_both_of_two_other_answers_are_found(self) -> None:
        for place, phrasings in ((1, [POOL]), (2, [REWORDED])):
            row = LearnedResponse(agent=self.agent, question=f"Sujet {place} ?", answer=f"{place} €")
            row.status = LearnedStatus.TO_REVIEW if place == 1 else LearnedStatus.VALID
            save_learned(row, phrasings=phrasings)
        assert self.kinds(POOL, "6 €") == ["contradiction", "contradiction"]

    def test_near_question_that_asks_something_else_is_no_duplicate(self) -> None:
        make_learned(self.agent, question="Combien coûte l'entrée de la piscine ?", answer="4 €")
        assert self.kinds(POOL, "6 €") == []

    def test_draft_and_answer_that_waits_for_its_index_count_too_in_other_words(self) -> None:
        store_answer(status=LearnedStatus.TO_REVIEW, agent=self.agent, question=POOL, answer="5 €")
        assert self.kinds(REWORDED, "6 €") == ["contradiction"]
        LearnedResponse.objects.all().delete()
        save_learned(LearnedResponse(agent=self.agent, question=POOL, answer="5 €"), in_worker=False)
        assert LearnedResponse.objects.get().index_state == IndexState.PENDING
        assert self.kinds(REWORDED, "6 €") == ["contradiction"]

    def test_questions_are_embedded_at_once_and_no_more_than_the_most(self) -> None:
        make_learned(self.agent, question=POOL, answer="5 €")
        model = embedder()
        with mock.patch.object(type(model), "embed", autospec=True, side_effect=type(model).embed) as embed:
            many = [f"{POOL} {number}" for number in range(MAX_QUESTIONS + 5)]
            find_similar(agent=self.agent, questions=many, answer="6 €")
        assert [len(call.args[1]) for call in embed.call_args_list if call.args[1]] == [MAX_QUESTIONS]


class SynonymTests(TestCase):
    def test_question_in_the_other_form_is_the_same(self) -> None:
        agent = make_agent()
        make_learned(agent, question="Comment relever ma boîte à lettres ?", answer="Avec la clé.")
        asked: dict[str, Any] = {"agent": agent, "questions": ["Comment relever ma BAL ?"], "answer": "Le soir."}
        assert find_similar(**asked) == []
        make_synonym(agent, "BAL", "boîte à lettres")
        (found,) = find_similar(**asked)
        assert found.kind == "contradiction"
