"""Indexing jobs: what fails and is retried, cancelled and resumed; what follows a change of rows."""

import tempfile
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.jobs import JobCancelledError, cancel
from agents.models import Agent, IndexingMethod, JobKind, JobStatus
from knowledge.indexing import points
from knowledge.indexing.jobs import create_rebuild, enqueue_documents, reconcile_agent, retry_build, run_build
from knowledge.indexing.path import index_documents, store_document
from knowledge.indexing.points import IndexReport, generations
from knowledge.indexing.rebuild import rollback_agent_index
from knowledge.models import BuildPhase, Category, Chunk, Document, DocumentStatus, IndexBuild
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, fresh, make_agent, make_deployment
from tests.failing_store import failing_store
from tests.terminal import run

QA = IndexingMethod.QA_ATOMIC
TEXT = "# Fiche {n}\n\n## Combien coûte la pièce {n} ?\n\nElle coûte {n} euros.\n"


def stored_documents(agent: Agent, count: int) -> list[Document]:
    return [store_document(agent=agent, name=f"{n}.md", data=TEXT.format(n=n).encode()).document for n in range(count)]


class FailureTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.documents = stored_documents(self.agent, 4)

    def statuses(self) -> list[str]:
        return list(self.agent.documents.order_by("pk").values_list("status", flat=True))

    def run_with_retries(self) -> IndexBuild:
        build = enqueue_documents(agent=self.agent, document_ids=[d.pk for d in self.documents])
        run_build(build.pk, may_retry=True)
        build.refresh_from_db()
        return build

    def test_store_that_stops_in_the_middle_fails_the_rest_by_document_and_a_retry_completes(self) -> None:
        with failing_store("", after=1), mock.patch.object(points, "GROUP_POINTS", 2):
            report = index_documents(agent=self.agent, documents=self.documents)
        assert self.statuses() == ["indexed", "failed", "failed", "failed"]
        assert [row["item"] for row in report.failed] == ["1.md", "2.md", "3.md"]
        assert Document.objects.get(name="2.md").error
        embedded = index_documents(agent=self.agent, documents=self.documents).embedded
        assert self.statuses() == ["indexed"] * 4
        assert embedded == 6  # two points each of the three that failed; nothing twice

    def test_failure_that_may_pass_is_tried_again_later_and_completes(self) -> None:
        with failing_store("") as store:
            build = self.run_with_retries()
            assert build.status == JobStatus.QUEUED
            assert build.not_before is not None
            assert run_build(build.pk) is None  # its time has not come
            store.down = ()
            IndexBuild.objects.update(not_before=timezone.now() - timedelta(seconds=1))
            run_build(build.pk, may_retry=True)
        assert (fresh(build).status, build.attempts) == (JobStatus.DONE, 2)
        assert self.statuses() == ["indexed"] * 4

    def test_database_in_trouble_is_said_and_the_job_tried_again_later(self) -> None:
        full = OperationalError("database or disk is full")
        with mock.patch("knowledge.indexing.jobs.index_documents", side_effect=full):
            build = self.run_with_retries()
        assert build.status == JobStatus.QUEUED
        assert build.not_before is not None
        assert "La base de données" in build.error
        assert "disk is full" in build.error

    @override_settings(JOB_MAX_ATTEMPTS=1)
    def test_retries_are_bounded_and_the_report_tells_each_document(self) -> None:
        with failing_store(""):
            build = self.run_with_retries()
        # Nothing of it was done.
        assert build.status == JobStatus.FAILED
        assert len(build.report["failed"]) == 4
        assert build.error.startswith("0.md : ")

    def test_unreadable_file_is_never_retried_keeps_its_reason_and_the_rest_is_done(self) -> None:
        self.documents.append(store_document(agent=self.agent, name="vide.md", data=b" ").document)
        build = self.run_with_retries()
        assert build.status == JobStatus.PARTLY_FAILED
        assert [row["item"] for row in build.report["failed"]] == ["vide.md"]
        assert self.statuses() == ["indexed"] * 4 + ["failed"]
        assert Document.objects.get(name="vide.md").error

    def test_file_that_this_worker_does_not_see_is_a_failure_that_can_be_tried_again(self) -> None:
        document = self.documents[0]
        with document.file.open("rb") as file:
            data = file.read()
        document.file.storage.delete(str(document.file.name))
        build = self.run_with_retries()
        assert build.status == JobStatus.PARTLY_FAILED
        assert "DOCUMENT_STORAGE" in build.error
        document.file.storage.save(document.file.name, ContentFile(data))
        retry_build(build)
        run_build(build.pk)
        assert (fresh(build).status, build.error) == (JobStatus.DONE, "")
        assert self.statuses() == ["indexed"] * 4

    def test_resumed_rebuild_embeds_nothing_again_that_was_written(self) -> None:
        index_documents(agent=self.agent, documents=self.documents)
        Chunk.objects.update(summary="Un autre résumé.")  # every content is to be embedded again
        build = create_rebuild(agent=self.agent, method=QA)
        with mock.patch("knowledge.indexing.points.WRITE_BATCH", 2):
            with failing_store("", after=2):
                run_build(build.pk, may_retry=True)
            written = vector_store().count(build.generation)
            IndexBuild.objects.update(not_before=None)
            report = run_build(build.pk)
        assert report is not None
        assert (written, report.embedded, report.points) == (4, 2, 8)
        assert vector_store().resolve_alias(collection_alias(self.agent.slug, QA)) == build.generation

    def test_text_that_cannot_be_embedded_fails_its_document_alone(self) -> None:
        index_documents(agent=self.agent, documents=self.documents)
        Chunk.objects.filter(document=self.documents[1]).update(
            knowledge_units=[{"question": "\u200b\u200b", "answer": "Rien."}]
        )
        report = IndexReport()
        points.write_documents(agent=self.agent, documents=self.documents, report=report)
        assert self.statuses() == ["indexed", "failed", "indexed", "indexed"]


class LargeFileTests(TestCase):
    @mock.patch("knowledge.indexing.path.QUICK_BYTES", 1_000)
    def test_large_files_leave_a_slot_free_and_are_read_after_the_small_ones(self) -> None:
        agent = make_agent()
        large = store_document(agent=agent, name="grand.md", data=b"# Grand\n\n" + b"Mot. " * 1_000)
        documents = [large.document, *stored_documents(agent, 2)]
        small, both = (
            enqueue_documents(agent=agent, document_ids=[d.pk for d in part]) for part in (documents[1:], documents)
        )
        assert ("is_long" in small.payload, both.payload["is_long"]) == (False, True)

        def look(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
            if phase is BuildPhase.READING and done == total:
                states.extend(agent.documents.order_by("pk").values_list("status", flat=True))

        states: list[str] = []
        with mock.patch("knowledge.chunking.MAX_DOCUMENT_CHUNKS", 3):
            run_build(both.pk, on_progress=look)
        assert states == ["pending", "indexed", "indexed"]


class CancelTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.documents = stored_documents(self.agent, 3)

    def test_cancelled_build_stops_keeps_what_is_done_and_is_resumed(self) -> None:
        build = enqueue_documents(agent=self.agent, document_ids=[d.pk for d in self.documents])

        def cancel_then(done: int, total: int, phase: BuildPhase = BuildPhase.VECTORS, /) -> None:
            if phase is BuildPhase.VECTORS and done == 2:
                cancel(build)

        with mock.patch.object(points, "GROUP_POINTS", 2), pytest.raises(JobCancelledError):
            run_build(build.pk, on_progress=cancel_then)
        assert fresh(build).status == JobStatus.CANCELLED
        assert self.agent.documents.filter(status=DocumentStatus.INDEXED).count() == 1
        retry_build(build)
        report = run_build(build.pk)
        assert report is not None
        assert (report.documents, report.embedded) == (3, 4)

    def test_cancelled_rebuild_overtaken_by_another_is_resumed_in_a_new_generation(self) -> None:
        index_documents(agent=self.agent, documents=self.documents)
        first = create_rebuild(agent=self.agent, method=QA)
        cancel(first)
        run_build(create_rebuild(agent=self.agent, method=QA).pk)
        retry_build(first)
        first.refresh_from_db()
        run_build(first.pk)
        alias = collection_alias(self.agent.slug, QA)
        assert vector_store().resolve_alias(alias) == first.generation


class PreviewTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.document = add_document(self.agent)
        self.before = vector_store().resolve_alias(collection_alias(self.agent.slug, QA))
        Chunk.objects.filter(content__contains="12 euros").update(
            knowledge_units=[{"question": "Quel est le tarif ?", "answer": "15 euros."}]
        )

    def test_dry_run_of_the_command_compares_the_questions_of_a_file(self) -> None:
        path = Path(tempfile.mkdtemp()) / "questions.jsonl"
        path.write_text('{"question": "Quel est le tarif ?"}\nHoraires ?\n\n')
        report = run("rebuild_agent_index", self.agent.slug, "--dry-run", "--questions", path)
        assert (report["added"], report["removed"], report["changed"]) == (0, 0, 1)
        first, second = report["questions"]
        assert first["has_other_best"]
        assert first["before"] != first["after"]
        assert second["question"] == "Horaires ?"
        assert not second["has_other_best"]
        assert generations(vector_store(), self.agent, QA) == [self.before]


class FollowingRowsTests(TestCase):
    """Edits reach the index from whichever door; `run_queued` is the worker."""

    def setUp(self) -> None:
        self.agent = make_agent()
        make_deployment(self.agent, config_overlay={"indexing_method": "legacy"})
        self.document = add_document(self.agent)
        self.chunk = self.document.chunks.get(content__contains="12 euros")

    def run_queued(self) -> list[str]:
        kinds = []
        for build in IndexBuild.objects.filter(status=JobStatus.QUEUED):
            kinds.append(build.kind)
            run_build(build.pk)
        return kinds

    def texts(self) -> str:
        aliases = [collection_alias(self.agent.slug, method) for method in IndexingMethod]
        batches = [batch for alias in aliases for batch in vector_store().scroll(alias)]
        return "\n".join(str(point.payload) for batch in batches for point in batch)

    def test_saved_chunk_reaches_every_method(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.chunk.content = "La carte coûte 99 euros."
            self.chunk.save()
        assert self.run_queued() == [JobKind.SYNC]
        assert self.texts().count("La carte coûte 99 euros.") == 2

    def test_many_edits_of_one_transaction_are_one_job(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            for chunk in self.document.chunks.all():
                chunk.save()
        assert IndexBuild.objects.get().document_ids == [self.document.pk]

    def test_bulk_update_is_found_by_comparing(self) -> None:
        Chunk.objects.filter(pk=self.chunk.pk).update(content="La carte coûte 99 euros.")
        assert [build.kind for build in reconcile_agent(self.agent.pk)] == [JobKind.SYNC]
        self.run_queued()
        assert self.texts().count("La carte coûte 99 euros.") == 2
        assert reconcile_agent(self.agent.pk) == []

    def test_renamed_and_deleted_category_reaches_the_payloads(self) -> None:
        category = Category.objects.create(name="Tarifs")
        with self.captureOnCommitCallbacks(execute=True):
            self.document.category = category
            self.document.save()
        self.run_queued()
        with self.captureOnCommitCallbacks(execute=True):
            category.name = "Prix"
            category.save()
        self.run_queued()
        assert "Tarifs" not in self.texts()
        assert "Prix" in self.texts()
        with self.captureOnCommitCallbacks(execute=True):
            category.delete()
        self.run_queued()
        assert "Prix" not in self.texts()

    def test_method_that_comes_into_use_gets_its_index(self) -> None:
        agent = make_agent()
        add_document(agent)
        deployment = make_deployment(agent)
        with self.captureOnCommitCallbacks(execute=True):
            deployment.config_overlay = {"indexing_method": "legacy"}
            deployment.save()
        build = IndexBuild.objects.get(agent=agent)
        assert (build.kind, build.method) == (JobKind.REBUILD, "legacy")
        run_build(build.pk)
        assert vector_store().count(collection_alias(agent.slug, IndexingMethod.LEGACY)) == 3

    def test_rollback_is_not_undone_by_the_comparison(self) -> None:
        run_build(create_rebuild(agent=self.agent, method=QA).pk)
        rollback_agent_index(agent=self.agent, method=QA)
        assert reconcile_agent(self.agent.pk) == []
