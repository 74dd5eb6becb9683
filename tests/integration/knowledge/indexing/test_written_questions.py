"""Questions that a model writes for passages which answer already: asked once, so many calls a
day, and stopped.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from django.test import TestCase
from django.utils import timezone

from agents.effective import effective_config
from agents.errors import ApplicationError, LLMResponseError, LLMUnavailableError
from agents.jobs import JobCancelledError, cancel
from agents.llm.base import GenerationOptions, PromptMessage, Reply
from agents.models import JobKind, JobStatus, RuntimeSettings
from knowledge.indexing import questions
from knowledge.indexing.jobs import (
    build_missing_indexes,
    enqueue_documents,
    enqueue_questions,
    reconcile_agent,
    retry_build,
    run_build,
)
from knowledge.indexing.path import store_document
from knowledge.indexing.points import IndexReport, stale_documents
from knowledge.models import Chunk, DocumentStatus, IndexBuild, UnitsOrigin
from knowledge.search import Passage, search_as
from tests.constants import override
from tests.factories import make_agent, make_deployment
from tests.failing_store import failing_store
from tests.scripted import ScriptedLLM

GOOD = {"question": "Combien coûte un passeport ?", "answer": "Le passeport coûte 86 euros."}
BAD = {"question": "Et sinon ?", "answer": "Il coûte 96 euros."}
PASSAGE = "Le passeport coûte 86 euros. Le dossier se dépose à la mairie, sur rendez-vous."


def reply(*units: object) -> str:
    return json.dumps({"units": list(units), "summary": "Le prix.", "keywords": ["prix"]})


def prose(count: int) -> bytes:
    """A document of `count` chunks without questions."""
    body = f"{PASSAGE} " * 4
    return ("# Passeport\n\n" + "\n\n".join(f"## Partie {n}\n\n{body}" for n in range(count))).encode()


class WrittenQuestionsTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def add(self, *, count: int = 1, name: str = "p.md", text: bytes = b"") -> IndexBuild:
        """Add a document as the admin does; returns its job, which is done."""
        stored = store_document(agent=self.agent, name=name, data=text or prose(count))
        build = enqueue_documents(agent=self.agent, document_ids=[stored.document.pk])
        run_build(build.pk)
        build_missing_indexes(agent=self.agent, report=IndexReport())
        return build

    @contextmanager
    def model(self, *replies: Any) -> Iterator[ScriptedLLM]:
        model = ScriptedLLM(replies)
        with self.using(model):
            yield model

    @contextmanager
    def using(self, model: Any) -> Iterator[None]:
        with mock.patch.object(questions, "language_model", return_value=model), override(UNIT_GENERATION_PARALLEL=1):
            yield

    def job(self) -> IndexBuild:
        return IndexBuild.objects.filter(kind=JobKind.QUESTIONS).latest("pk")

    def write(self, *, may_retry: bool = False) -> IndexReport:
        report = run_build(self.job().pk, may_retry=may_retry)
        assert report is not None
        return report

    def chunk(self) -> Chunk:
        return Chunk.objects.get(document__agent=self.agent)

    def found(self, question: str) -> Passage:
        config = effective_config(make_deployment(self.agent))
        return search_as(config, question, limit=3).hits[0]

    def written(self) -> int:
        return Chunk.objects.filter(units_origin=UnitsOrigin.GENERATED).count()

    def allow(self, **limits: Any) -> None:
        RuntimeSettings(values=limits).save()

    def test_document_answers_before_any_question_is_asked_of_the_model(self) -> None:
        with self.model() as silent:
            self.add()
            found = self.found("prix du passeport")
        assert silent.calls == []
        assert "86 euros" in found.content
        assert self.job().status == JobStatus.QUEUED
        assert self.chunk().document.status == DocumentStatus.INDEXED

    def test_first_documents_of_many_answer_before_the_last_are_embedded(self) -> None:
        self.add(name="first.md")
        sizes: list[int] = []
        keys = [store_document(agent=self.agent, name=f"{n}.md", data=prose(8)).document.pk for n in range(30)]
        build = enqueue_documents(agent=self.agent, document_ids=keys)
        run_build(
            build.pk,
            on_progress=lambda *_: sizes.append(self.agent.documents.filter(status=DocumentStatus.INDEXED).count()),
        )
        assert sorted(set(sizes)) == [1, 9, 17, 31]

    def test_questions_are_found_once_they_are_written(self) -> None:
        with self.model(reply(GOOD, BAD)):
            self.add()
            report = self.write()
        assert self.found(GOOD["question"]).question == GOOD["question"]
        assert (self.job().status, report.model_calls, report.rejected, report.waiting) == (JobStatus.DONE, 1, 1, 0)
        assert (self.chunk().knowledge_units, self.chunk().units_origin) == ([GOOD], UnitsOrigin.GENERATED)
        assert stale_documents(self.agent) == []

    def test_indexing_again_asks_for_what_waits_although_nothing_changed(self) -> None:
        build = self.add()
        with self.model():
            run_build(enqueue_documents(agent=self.agent, document_ids=build.document_ids).pk)
            assert self.job().total == 1

    def test_nothing_is_queued_where_nothing_waits_or_no_model_is_there(self) -> None:
        self.add()
        with self.model():
            self.add(name="qa.md", text=b"# A\n\n## Combien ?\n\nLa carte vaut 12 euros.\n")
        assert not IndexBuild.objects.filter(kind=JobKind.QUESTIONS).exists()

    def test_document_that_joins_at_the_very_end_is_not_forgotten(self) -> None:
        with self.model(reply(GOOD), reply(GOOD)):
            self.add(name="a.md")

            def join(*_args: Any) -> JobStatus:
                ended.stop()
                self.add(name="b.md")
                return JobStatus.DONE

            ended = mock.patch("knowledge.indexing.jobs._status", join)
            ended.start()
            self.write()
            assert self.job().status == JobStatus.QUEUED
            self.write()
        assert (self.written(), self.job().status) == (2, JobStatus.DONE)

    def test_indexation_that_waits_goes_first(self) -> None:
        with self.model(*[reply(GOOD)] * 2):
            self.add(count=2)
            enqueue_documents(agent=self.agent, document_ids=[])
            self.write(may_retry=True)
            job = self.job()
            assert (job.status, self.written(), job.attempts) == (JobStatus.QUEUED, 0, 0)
            assert job.not_before is not None
            assert job.not_before > timezone.now()

    def test_nothing_is_asked_twice_also_where_nothing_was_kept(self) -> None:
        with self.model(reply(BAD)):
            self.add()
            self.write()
            self.add()
            assert enqueue_questions(agent=self.agent, document_ids=[self.chunk().document_id]) is None

    def test_unreadable_reply_is_told_and_asked_for_again_at_the_next_run(self) -> None:
        with self.model("nonsense", reply(GOOD)):
            self.add()
            report = self.write()
            assert "illisible" in report.skipped[0]["reason"]
            self.add()
            self.write()
        assert self.chunk().knowledge_units == [GOOD]

    def test_changed_text_is_asked_about_alone(self) -> None:
        with self.model(*[reply(GOOD)] * 4):
            self.add(count=3)
            self.write()
            changed = prose(3).replace(b"## Partie 1\n\nLe pass", b"## Partie 1\n\nNeuf : le pass")
            self.add(text=changed)
            report = self.write()
        assert report.model_calls == 1
        assert report.embedded == 2  # its question, and its text with the summary

    def test_error_of_one_passage_leaves_that_passage_waiting(self) -> None:
        with self.model(LLMResponseError("too long"), reply(GOOD), reply(GOOD)):
            self.add(count=3)
            report = self.write()
        assert (report.waiting, report.model_calls) == (1, 3)

    def test_model_that_is_down_is_left_alone_after_three_failures_and_a_retry_completes(self) -> None:
        with self.model(*[LLMUnavailableError("down")] * 3) as down:
            self.add(count=6)
            report = self.write(may_retry=True)
            assert (len(down.calls), report.waiting, report.may_pass) == (3, 6, True)
            assert self.job().status == JobStatus.QUEUED
            IndexBuild.objects.update(not_before=None)
            down.script(*[reply(GOOD)] * 6)
            assert self.write(may_retry=True).waiting == 0

    def test_model_of_whose_replies_nothing_can_be_kept_stops_the_job_with_a_reason(self) -> None:
        with self.model("Bonjour !", reply(BAD), "Bonjour !") as model, override(QUESTIONS_USELESS_PASSAGES=3):
            self.add(count=12)
            self.write(may_retry=True)
        job = self.job()
        assert len(model.calls) == 3
        assert job.status == JobStatus.FAILED
        assert "n’a pu être gardé" in job.error

    def test_questions_of_staff_written_meanwhile_stand(self) -> None:
        def edit() -> None:
            Chunk.objects.update(knowledge_units=[BAD], units_origin=UnitsOrigin.STAFF)

        with self.using(_Deciding(edit)):
            self.add()
            self.write()
        assert self.chunk().knowledge_units == [BAD]

    def test_budget_of_calls_is_kept_to_the_call_and_goes_on_the_next_day(self) -> None:
        self.allow(question_calls_per_day=2)
        with self.model(*[reply(GOOD)] * 5) as model:
            self.add(count=5)
            self.write(may_retry=True)
            job = self.job()
            assert (len(model.calls), self.written()) == (2, 2)
            assert (job.status, job.report["model_calls"]) == (JobStatus.QUEUED, 2)
            assert "appels au modèle par jour" in job.error
            assert job.not_before is not None
            assert timezone.localtime(job.not_before).hour == 0
            IndexBuild.objects.update(not_before=None)
            self.write(may_retry=True)  # still the same day
            assert len(model.calls) == 2
            RuntimeSettings.objects.update(questions_day="2020-01-01")
            IndexBuild.objects.update(not_before=None)
            self.write(may_retry=True)
            assert (len(model.calls), self.job().report["model_calls"]) == (4, 4)

    def test_budget_that_staff_raise_holds_at_once(self) -> None:
        self.allow(question_calls_per_day=1)
        with self.model(*[reply(GOOD)] * 3):
            self.add(count=3)
            self.write(may_retry=True)
            self.allow(question_calls_per_day=3)
            self.write(may_retry=True)
        assert (self.written(), self.job().status) == (3, JobStatus.DONE)

    def test_stop_gives_it_up_until_somebody_asks_again(self) -> None:
        with self.using(_Deciding(lambda: cancel(self.job()))):
            self.add(count=3)
            with pytest.raises(JobCancelledError):
                self.write()
            assert self.written() == 1
            reconcile_agent(self.agent.pk)
            assert self.job().status == JobStatus.CANCELLED
            retry_build(self.job())
            self.write()
        assert self.written() == 3

    def test_worker_that_dies_loses_no_question_and_its_calls_stay_counted(self) -> None:
        with self.model(reply(GOOD)) as model:
            self.add(count=3)
            job = self.job()
            # Its second call has no reply that was declared, which nothing expects.
            with pytest.raises(ApplicationError):
                self.write()
            assert (self.written(), RuntimeSettings.load().questions_calls) == (1, 2)
            died = {"status": JobStatus.RUNNING, "lease_expires_at": timezone.now()}
            IndexBuild.objects.filter(pk=job.pk).update(**died)
            model.script(*[reply(GOOD)] * 2)
            self.write()
        assert (self.written(), stale_documents(self.agent)) == (3, [])

    def test_store_that_is_away_for_one_write_leaves_the_document_answering_and_a_retry_writes_it(self) -> None:
        with self.model(reply(GOOD)):
            self.add()
            with failing_store(""):
                self.write(may_retry=True)
            document = self.chunk().document
            assert (document.status, document.error) == (DocumentStatus.INDEXED, "")
            assert self.job().status == JobStatus.QUEUED
            assert stale_documents(self.agent) == [document.pk]
            IndexBuild.objects.update(not_before=None)
            self.write(may_retry=True)
        assert (self.job().status, stale_documents(self.agent)) == (JobStatus.DONE, [])
        assert self.found(GOOD["question"]).question == GOOD["question"]


class _Deciding(ScriptedLLM):
    """Staff decide while the first call is under way: between its begin and the job's next look."""

    def __init__(self, decide: Any) -> None:
        super().__init__()
        self._decide = decide
        self._held = mock.patch("knowledge.indexing.questions.wait", self._wait)
        self._held.start()

    def complete(self, messages: Sequence[PromptMessage], options: GenerationOptions) -> Reply:
        return Reply(text=reply(GOOD), model="deciding")

    def _wait(self, running: Any, **options: Any) -> Any:
        from concurrent.futures import wait

        self._held.stop()
        self._decide()
        return wait(running, **options)
