"""The model's questions at indexing: asked once, in parallel with a limit, told with their cost; and questions that overlap."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

from django.test import TestCase, override_settings

from agents.exceptions import LLMResponseError, LLMUnavailableError
from agents.llm.base import GenerationOptions, PromptMessage, Reply
from agents.llm.scripted import ScriptedLLM
from agents.models import Agent
from faqs import tasks
from faqs.answers.writing import save_learned
from knowledge import overlaps
from knowledge.indexing import path
from knowledge.indexing.path import index_documents, store_document
from knowledge.indexing.report import IndexReport
from knowledge.models import Chunk, Document, OverlapKind, QuestionOverlap, UnitsOrigin
from knowledge.overlaps import find_overlaps
from tests.factories import add_document, make_agent, make_learned

GOOD = {"question": "Combien coûte un passeport ?", "answer": "Le passeport coûte 86 euros."}
BAD = {"question": "Et sinon ?", "answer": "Il coûte 96 euros."}
PASSAGE = "Le passeport coûte 86 euros. Le dossier se dépose à la mairie, sur rendez-vous."


def reply(*units: object) -> str:
    return json.dumps({"units": list(units), "summary": "Le prix.", "keywords": ["prix"]})


def prose(count: int) -> str:
    """A document of `count` chunks without questions."""
    body = f"{PASSAGE} " * 4
    return "# Passeport\n\n" + "\n\n".join(f"## Partie {n}\n\n{body}" for n in range(count))


class PipelineTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def index(self, model: Any, *, count: int = 1) -> IndexReport:
        text = prose(count).encode()
        document = store_document(agent=self.agent, name="p.md", data=text).document
        with mock.patch.object(path, "language_model", return_value=model):
            return index_documents(agent=self.agent, documents=[document])

    def chunk(self) -> Chunk:
        return Chunk.objects.get(document__agent=self.agent)

    def test_units_are_kept_and_rejected_ones_stay_with_their_reason(self) -> None:
        report = self.index(ScriptedLLM([reply(GOOD, BAD)]))
        chunk = self.chunk()
        assert chunk.knowledge_units == [GOOD]
        assert chunk.units_origin == UnitsOrigin.GENERATED
        assert chunk.rejected_units[0]["question"] == BAD["question"]
        assert "nombre" in chunk.rejected_units[0]["reason"]
        assert (report.model_calls, report.rejected, report.waiting) == (1, 1, 0)
        assert report.prompt_tokens > 0
        assert report.completion_tokens > 0

    def test_chunks_without_units_are_logged_by_their_identifiers(self) -> None:
        with self.assertLogs("knowledge.indexing.path", "INFO") as logs:
            self.index(ScriptedLLM([reply(BAD)]))
        chunk = self.chunk()
        told = f"chunks without units document_id={chunk.document_id} chunk_ids=[{chunk.pk}]"
        assert [line.endswith(told) for line in logs.output] == [True]
        Chunk.objects.all().delete()
        with self.assertNoLogs("knowledge.indexing.path", "INFO"):
            self.index(ScriptedLLM([reply(GOOD)]))

    def test_second_run_makes_no_model_call_also_where_nothing_was_kept(self) -> None:
        self.index(ScriptedLLM([reply(BAD)]))
        silent = ScriptedLLM()
        report = self.index(silent)
        silent.assert_exhausted()
        assert (report.model_calls, report.embedded, report.waiting) == (0, 0, 1)

    def test_unreadable_reply_is_told_and_asked_for_again_at_the_next_run(self) -> None:
        report = self.index(ScriptedLLM(["nonsense", "{"]))
        assert "illisible" in report.skipped[0]["reason"]
        assert "illisible" in self.chunk().rejected_units[0]["reason"]
        self.index(ScriptedLLM([reply(GOOD)]))
        assert self.chunk().knowledge_units == [GOOD]
        assert self.chunk().rejected_units == []

    def test_changed_text_is_asked_about_alone(self) -> None:
        self.index(ScriptedLLM([reply(GOOD)] * 3), count=3)
        changed = prose(3).replace(
            "## Partie 1\n\nLe passeport", "## Partie 1\n\nNeuf : le passeport"
        )
        document = store_document(agent=self.agent, name="p.md", data=changed.encode()).document
        model = ScriptedLLM([reply(GOOD)])
        with mock.patch.object(path, "language_model", return_value=model):
            report = index_documents(agent=self.agent, documents=[document])
        model.assert_exhausted()
        assert report.model_calls == 1
        assert report.embedded == 2  # its question and its content

    def test_error_of_one_chunk_leaves_that_chunk_waiting(self) -> None:
        model = ScriptedLLM([LLMResponseError("too long"), reply(GOOD), reply(GOOD)])
        with override_settings(UNIT_GENERATION_PARALLEL=1):
            report = self.index(model, count=3)
        assert (report.waiting, report.model_calls) == (1, 2)

    def test_model_that_is_down_is_left_alone_after_three_failures_and_a_retry_completes(
        self,
    ) -> None:
        down = ScriptedLLM([LLMUnavailableError("down")] * 3)
        with override_settings(UNIT_GENERATION_PARALLEL=1):
            report = self.index(down, count=6)
        assert (len(down.calls), report.waiting, report.may_pass) == (3, 6, True)
        assert self.index(ScriptedLLM([reply(GOOD)] * 6), count=6).waiting == 0

    def test_no_more_questions_are_under_way_than_the_limit(self) -> None:
        model = _Counting()
        with override_settings(UNIT_GENERATION_PARALLEL=3):
            self.index(model, count=12)
        assert model.most == 3

    def test_questions_of_staff_written_meanwhile_stand(self) -> None:
        def edit() -> None:
            Chunk.objects.update(knowledge_units=[BAD], units_origin=UnitsOrigin.STAFF)

        with mock.patch("knowledge.indexing.units.generate_units") as generate:
            generate.side_effect = lambda *_args, **_options: _edited(edit)
            with override_settings(UNIT_GENERATION_PARALLEL=1):
                self.index(ScriptedLLM())
        assert self.chunk().knowledge_units == [BAD]


def _edited(edit: Any) -> Any:
    from knowledge.qa_generation import GeneratedUnits
    from knowledge.reading.chunking import KnowledgeUnit

    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return _Late(edit, GeneratedUnits(units=(KnowledgeUnit(**GOOD),), model_calls=1))


class _Late:
    """Units during whose arrival staff edit the chunk: the edit runs when they are first looked at."""

    def __init__(self, edit: Any, generated: Any) -> None:
        self._edit, self._generated = edit, generated

    def __getattr__(self, name: str) -> Any:
        if self._edit is not None:
            edit, self._edit = self._edit, None
            edit()
        return getattr(self._generated, name)


class _Counting(ScriptedLLM):
    """Answers everything the same, and remembers how many calls were under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most = self._now = 0
        self._guard = threading.Lock()

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        with self._guard:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.02)
        with self._guard:
            self._now -= 1
        return Reply(text=reply(GOOD), model="counting")


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
        tasks.sync_learned([row.pk])
        assert QuestionOverlap.objects.get().kind == OverlapKind.CONTRADICTION
        row.answer = "La carte coûte 12 euros."
        save_learned(row)
        tasks.sync_learned([row.pk])
        assert QuestionOverlap.objects.get().kind == OverlapKind.DUPLICATE
        with self.captureOnCommitCallbacks(execute=True):
            row.delete()
        assert not QuestionOverlap.objects.exists()
        tasks.sync_learned([other.pk])
        assert not QuestionOverlap.objects.exists()

    def test_look_at_validated_answers_leaves_pairs_of_documents_alone(self) -> None:
        self.test_same_question_with_other_figures_is_a_contradiction()
        row = make_learned(self.agent, question="Où est la gare ?", answer="Place du Nord.")
        tasks.sync_learned([row.pk])
        assert QuestionOverlap.objects.count() == 1

    def test_phrasings_of_a_validated_answer_are_no_duplicates(self) -> None:
        make_learned(
            self.agent, question="Combien coûte la carte ?", phrasings=["Combien coûte une carte ?"]
        )
        with mock.patch.object(overlaps, "_ALIKE", 0.1), mock.patch.object(overlaps, "_checks", []):
            assert self.found() == []

    def test_agents_are_looked_at_apart(self) -> None:
        self.add("a.md", "Combien coûte la carte ?", "La carte coûte 12 euros.")
        other: Agent = make_agent()
        add_document(other, text="# B\n\n## Combien coûte la carte ?\n\nElle coûte 15 euros.\n")
        assert self.found() == []
