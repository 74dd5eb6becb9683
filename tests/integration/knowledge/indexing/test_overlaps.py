"""Questions that overlap: the same asked twice in an agent's documents and validated answers."""

from unittest import mock

from django.test import TestCase

from agents.models import Agent
from faqs.answer_points import compare_with_index, sync_learned
from faqs.answers import save_learned
from faqs.models import LearnedResponse
from knowledge import overlaps
from knowledge.above import answers_above
from knowledge.models import Document, OverlapKind, QuestionOverlap
from knowledge.overlaps import find_overlaps
from tests.factories import add_document, make_agent, make_learned


def settle(row: LearnedResponse) -> None:
    """As the worker does."""
    sync_learned([row.pk])
    compare_with_index([row.agent])


class OverlapTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def add(self, name: str, question: str, answer: str) -> Document:
        return add_document(self.agent, name=name, text=f"# {name}\n\n## {question}\n\n{answer}\n")

    def found(self) -> list[tuple[str, str]]:
        find_overlaps(self.agent)
        return [(o.kind, o.first_question) for o in QuestionOverlap.objects.all()]

    def test_same_question_with_other_figures_is_a_contradiction(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        self.add("b.md", "Combien coûte la carte ?", "La carte coûte 15 euros.")
        assert self.found() == [(OverlapKind.CONTRADICTION, "Combien coûte la carte ?")]

    def test_same_question_with_the_same_answer_is_a_duplicate(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        self.add("b.md", "Combien coûte la carte ?", "La carte coûte 12 euros !")
        assert [kind for kind, _question in self.found()] == [OverlapKind.DUPLICATE]

    def test_other_questions_do_not_overlap(self) -> None:
        self.add("a.md", "Combien coûte la carte en 2023 ?", "La carte coûte 12 euros.")
        self.add("b.md", "Combien coûte la carte en 2024 ?", "La carte coûte 15 euros.")
        with mock.patch.object(overlaps, "_ALIKE", 0.5):
            assert self.found() == []

    def test_accepted_pair_stays_accepted_until_an_answer_changes(self) -> None:
        self.test_same_question_with_other_figures_is_a_contradiction()
        QuestionOverlap.objects.update(dismissed=True)
        self.found()
        assert QuestionOverlap.objects.get().dismissed
        self.add("b.md", "Combien coûte la carte ?", "La carte coûte 18 euros.")
        self.found()
        assert not QuestionOverlap.objects.get().dismissed

    def test_pair_goes_with_its_chunk(self) -> None:
        self.test_same_question_with_other_figures_is_a_contradiction()
        Document.objects.get(name="b.md").delete()
        assert not QuestionOverlap.objects.exists()

    def test_documents_are_compared_with_all_others(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        second = self.add("b.md", "Combien coûte la carte ?", "La carte coûte 15 euros.")
        assert find_overlaps(self.agent, document_ids={second.pk}) == 1

    def test_validated_answer_that_says_otherwise_is_a_contradiction(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        make_learned(self.agent, question="Combien coûte la carte ?", answer="Elle coûte 15 euros.")
        assert [kind for kind, _question in self.found()] == [OverlapKind.CONTRADICTION]

    def test_edit_of_a_validated_answer_is_compared_at_once_and_its_deletion_too(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        other = make_learned(self.agent, question="Où est la gare ?", answer="Place du Nord.")
        row = make_learned(self.agent, question="Combien coûte la carte ?", answer="15 euros.")
        settle(row)
        assert QuestionOverlap.objects.get().kind == OverlapKind.CONTRADICTION
        row.answer = "La carte coûte 12 euros."
        save_learned(row)
        settle(row)
        assert QuestionOverlap.objects.get().kind == OverlapKind.DUPLICATE
        with self.captureOnCommitCallbacks(execute=True):
            row.delete()
        assert not QuestionOverlap.objects.exists()
        settle(other)
        assert not QuestionOverlap.objects.exists()

    def test_look_at_validated_answers_leaves_pairs_of_documents_alone(self) -> None:
        self.test_same_question_with_other_figures_is_a_contradiction()
        row = make_learned(self.agent, question="Où est la gare ?", answer="Place du Nord.")
        settle(row)
        assert QuestionOverlap.objects.count() == 1

    def test_phrasings_of_a_validated_answer_are_no_duplicates(self) -> None:
        make_learned(self.agent, question="Combien coûte la carte ?", phrasings=["Combien coûte une carte ?"])
        with (
            mock.patch.object(overlaps, "_ALIKE", 0.1),
            mock.patch.object(answers_above(), "ask_the_same", return_value=True),
        ):
            assert self.found() == []

    def test_agents_are_looked_at_apart(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        other: Agent = make_agent()
        add_document(other, text="# B\n\n## Combien coûte la carte ?\n\nElle coûte 15 euros.\n")
        assert self.found() == []
