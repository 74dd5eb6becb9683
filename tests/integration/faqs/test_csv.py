"""An import with a plan: nothing that stands is replaced or contradicted unless it was chosen, and still is as it was
shown.
"""

from unittest import mock

from django.test import TestCase

from agents.models import Agent
from faqs.answers import save_learned, set_status
from faqs.csv import FaqRow, ImportPlan, RowKind, apply_import, csv_lines, plan_import
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus
from knowledge.embeddings.base import embedder
from knowledge.errors import VectorStoreUnavailableError
from tests.constants import override
from tests.factories import fresh, make_agent, make_learned, store_answer

PRICE = "Combien coûte la carte de lecteur ?"
#: The second key takes it for the same question.
REWORDED = "Quel est le prix de la carte de lecteur ?"


def csv_of(*rows: FaqRow) -> bytes:
    return "".join(csv_lines(rows)).encode()


def planned(agent: Agent, *rows: FaqRow) -> ImportPlan:
    return plan_import(agent, csv_of(*rows))


def kinds(plan: ImportPlan) -> list[str]:
    return [each.kind.value for each in plan.rows]


class PlanningTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def test_rows_are_told_apart_and_nothing_is_written(self) -> None:
        make_learned(self.agent, question="Où ?", answer="Ici.", phrasings=["À quel endroit ?"])
        kept = make_learned(self.agent, question="Quand ?", answer="Lundi.")
        before = list(LearnedResponse.objects.order_by("pk").values())
        plan = planned(
            self.agent,
            FaqRow("Où ?", "Là-bas.", "Lieux"),
            FaqRow("Quand ?", "Lundi."),
            FaqRow("Pourquoi ?", "Parce que."),
            FaqRow("Comment ?", ""),
        )
        assert kinds(plan) == ["changed", "unchanged", "new"]
        assert [failure.line for failure in plan.failed] == [5]
        old = plan.rows[0].replaces
        assert old is not None
        assert FaqRow.of(old) == FaqRow("Où ?", "Ici.", "FAQ", ("À quel endroit ?",))
        assert plan.rows[1].replaces is not None
        assert plan.rows[1].replaces.pk == kept.pk
        assert list(LearnedResponse.objects.order_by("pk").values()) == before

    def test_only_valid_answer_with_the_same_texts_is_unchanged(self) -> None:
        row = make_learned(self.agent, question="Où ?", answer="Ici.", phrasings=["Lieu ?"])
        assert kinds(planned(self.agent, FaqRow("Où ?", "Ici.", phrasings=("Lieu ?",)))) == ["unchanged"]
        save_learned(row, phrasings=["Endroit ?", "Lieu ?"])
        same = FaqRow("Où ?", "Ici.", phrasings=("Endroit ?", "Lieu ?"))
        assert kinds(planned(self.agent, same)) == ["unchanged"], "in whatever order"
        assert kinds(planned(self.agent, FaqRow("Où ?", "Ici."))) == ["changed"]
        set_status([row], LearnedStatus.OBSOLETE)
        assert kinds(planned(self.agent, same)) == ["changed"]

    def test_another_answer_to_the_question_in_other_words_is_a_contradiction(self) -> None:
        row = make_learned(self.agent, question=PRICE, answer="12 euros.")
        plan = planned(self.agent, FaqRow(REWORDED, "15 euros."))
        assert kinds(plan) == ["contradictory"]
        assert [other.pk for other in plan.rows[0].contradicts] == [row.pk]
        assert kinds(planned(self.agent, FaqRow(REWORDED, "12  EUROS."))) == ["new"]

    def test_phrasing_of_a_row_and_phrasing_of_an_answer_contradict_too(self) -> None:
        make_learned(self.agent, question="Autre chose ?", answer="12.", phrasings=[PRICE])
        plan = planned(self.agent, FaqRow(PRICE, "15."), FaqRow("Sans rapport aucun ?", "16.", phrasings=(REWORDED,)))
        assert kinds(plan) == ["contradictory", "contradictory"]

    def test_changed_row_says_what_else_it_contradicts(self) -> None:
        make_learned(self.agent, question=PRICE, answer="12 euros.")
        other = make_learned(self.agent, question=REWORDED, answer="12 euros !")
        (row,) = planned(self.agent, FaqRow(PRICE, "15 euros.")).rows
        assert row.kind == RowKind.CHANGED
        assert [each.pk for each in row.contradicts] == [other.pk]

    def test_same_text_is_found_without_an_index(self) -> None:
        row = LearnedResponse(agent=self.agent, question=PRICE, answer="12.", kind=LearnedKind.COURTESY)
        save_learned(row)
        assert kinds(planned(self.agent, FaqRow(PRICE, "15."))) == ["contradictory"]

    def test_store_that_is_down_is_said_and_the_plan_is_made_all_the_same(self) -> None:
        make_learned(self.agent, question=PRICE, answer="12 euros.")
        with mock.patch("faqs.neighbours.vector_store", side_effect=VectorStoreUnavailableError("down")):
            plan = planned(self.agent, FaqRow(REWORDED, "15."), FaqRow(PRICE, "12 euros."))
        assert kinds(plan) == ["new", "unchanged"]
        assert plan.not_compared == 1
        assert "indisponible" in plan.not_compared_reason

    def test_questions_are_embedded_together_and_not_at_all_without_answers(self) -> None:
        rows = [FaqRow(f"Question {number} ?", "R") for number in range(5)]
        with mock.patch.object(type(embedder()), "embed", autospec=True, side_effect=type(embedder()).embed) as embed:
            planned(self.agent, *rows)
            assert embed.call_count == 0
            make_learned(self.agent)
            before = embed.call_count
            planned(self.agent, *rows)
            assert embed.call_count == before + 1

    def test_unchanged_rows_are_read_together_and_compared_with_nothing(self) -> None:
        rows = [FaqRow(f"Question {number} ?", "R") for number in range(10)]
        apply_import(planned(self.agent, *rows))
        for some in (rows[:1], rows):
            with self.assertNumQueries(2):  # answers, phrasings
                assert set(kinds(planned(self.agent, *some))) == {"unchanged"}


class ApplyingTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.row = make_learned(self.agent, question=PRICE, answer="12 euros.")

    def test_answer_that_changed_since_the_plan_is_not_replaced(self) -> None:
        plan = planned(self.agent, FaqRow(PRICE, "15 euros."), FaqRow(REWORDED, "16 euros."))
        self.row.answer = "13 euros."
        save_learned(self.row)
        report = apply_import(plan, chosen={2})
        assert (report.created, report.updated) == (0, 0)
        assert [failure.line for failure in report.failed] == [2]
        assert all("a changé depuis" in failure.reason for failure in report.failed)
        assert fresh(self.row).answer == "13 euros."

    def test_answer_that_was_deleted_or_given_since_the_plan_is_reported(self) -> None:
        plan = planned(self.agent, FaqRow(PRICE, "15 euros."), FaqRow("Où ?", "Ici."))
        self.row.delete()
        store_answer(agent=self.agent, question="où", answer="Là.")
        report = apply_import(plan, chosen={2})
        assert (report.created, report.updated, len(report.failed)) == (0, 0, 2)
        assert LearnedResponse.objects.get().answer == "Là."

    @override(QA_MAX_ANSWER_CHARACTERS=3)
    def test_text_that_is_no_longer_allowed_is_reported(self) -> None:
        with override(QA_MAX_ANSWER_CHARACTERS=100):
            plan = planned(self.agent, FaqRow("Où ?", "Là-bas."))
        assert len(apply_import(plan).failed) == 1
