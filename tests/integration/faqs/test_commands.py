"""`add_faq`, `import_faqs`, `export_faqs`: one JSON object, errors with their lines, the rest done."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import TestCase

from faqs.answer_points import sync_learned
from faqs.answers import set_status
from faqs.models import IndexState, LearnedResponse, LearnedStatus
from tests.factories import fresh, make_agent, make_learned
from tests.failing_store import failing_store
from tests.terminal import run


class CommandTests(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def setUp(self) -> None:
        self.agent = make_agent()

    def file(self, text: str, name: str = "faq.csv") -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    def test_added_faq_is_indexed_at_once(self) -> None:
        result = run("add_faq", self.agent.slug, "--question", "Prix ?", "--answer", "12 €", "--phrasing", "C ?")
        row = LearnedResponse.objects.get()
        assert result == {"id": row.pk, "question": "Prix ?", "index_state": IndexState.INDEXED}
        assert row.phrasings.count() == 1

    def test_refusals_say_what_to_do(self) -> None:
        with pytest.raises(CommandError, match="There is no agent"):
            call_command("add_faq", "nobody", "--question", "Q ?", "--answer", "R")
        with pytest.raises(CommandError, match="réponse est vide"):
            call_command("add_faq", self.agent.slug, "--question", "Q ?", "--answer", " ")
        with pytest.raises(CommandError, match="No such file"):
            call_command("import_faqs", self.agent.slug, self.folder / "none.csv")

    def test_faq_added_while_the_store_is_down_is_kept_and_the_command_fails(self) -> None:
        with failing_store(""), pytest.raises(CommandError, match="kept"):
            call_command("add_faq", self.agent.slug, "--question", "Prix ?", "--answer", "12", stdout=StringIO())
        assert sync_learned().indexed == 1

    def test_bad_rows_are_named_by_line_and_the_rest_is_done(self) -> None:
        path = self.file(f"question,answer,category\nUn ?,1,A\n,2,A\nTrois ?,,A\n{'q' * 301},4,\nC ?,5,\n")
        result = run("import_faqs", self.agent.slug, path)
        assert (result["created"], result["indexed"]) == (2, 2)
        assert [row["line"] for row in result["failed"]] == [3, 4, 5]
        assert set(LearnedResponse.objects.values_list("category", flat=True)) == {"A", "FAQ"}

    def test_same_question_twice_in_a_file_is_kept_once_and_a_contradiction_is_named(self) -> None:
        path = self.file("question,answer\nA ?,1\na,1\nA,2\n")
        result = run("import_faqs", self.agent.slug, path)
        assert (result["created"], result["unchanged"]) == (1, 1)
        assert [(row["line"], "ligne 2" in row["reason"]) for row in result["failed"]] == [(4, True)]
        assert LearnedResponse.objects.get().answer == "1"
        again = run("import_faqs", self.agent.slug, path)
        assert (again["updated"], again["unchanged"]) == (0, 2)

    def test_answer_that_stands_is_left_alone_and_shown_unless_told_otherwise(self) -> None:
        row = make_learned(self.agent, question="Prix ?", answer="12 euros.")
        path = self.file("question,answer\nPrix ?,15 euros.\nOù ?,Ici.\n")
        for words, rows in ((["--dry-run", "--yes"], 1), ([], 2)):
            result = run("import_faqs", self.agent.slug, path, *words)
            assert LearnedResponse.objects.count() == rows
            (left,) = result["left"]
            assert result["changed"] == [left]
            assert (left["line"], left["question"]) == (2, "Prix ?")
            assert (left["old"]["answer"], left["new"]["answer"]) == ("12 euros.", "15 euros.")
            assert fresh(row).answer == "12 euros."
        result = run("import_faqs", self.agent.slug, path, "--yes")
        assert (result["updated"], result["unchanged"], result["left"]) == (1, 1, [])
        assert (fresh(row).answer, row.index_state) == ("15 euros.", IndexState.INDEXED)

    def test_export_comes_back_with_its_phrasings(self) -> None:
        make_learned(self.agent, question="=Prix ?", answer="- 12 €\n- 6 €", phrasings=["Tarif ?"])
        make_learned(self.agent, question="Où ?", category="Lieux")
        out = StringIO()
        call_command("export_faqs", self.agent.slug, stdout=out)
        other = make_agent()
        result = run("import_faqs", other.slug, self.file(out.getvalue()))
        again = StringIO()
        call_command("export_faqs", other.slug, stdout=again)
        assert (result["created"], again.getvalue()) == (2, out.getvalue())

    def test_export_as_json(self) -> None:
        row = make_learned(self.agent, phrasings=["Tarif ?"])
        assert run("export_faqs", self.agent.slug)["rows"] == [
            {"question": row.question, "answer": row.answer, "category": "FAQ", "phrasings": ["Tarif ?"]}
        ]

    def test_obsolete_answers_are_exported_on_demand_only(self) -> None:
        set_status([make_learned(self.agent)], LearnedStatus.OBSOLETE)
        assert run("export_faqs", self.agent.slug)["rows"] == []
        assert len(run("export_faqs", self.agent.slug, "--all")["rows"]) == 1
