"""Which generation answers: after a rebuild, a failed one, a rollback, another embedding model, during a write."""

import io
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.test import TestCase
from django.utils import timezone

from agents.models import Agent, IndexingMethod, JobStatus
from knowledge.errors import EmbeddingMismatchError, VectorStoreUnavailableError
from knowledge.indexing import points, rebuild
from knowledge.indexing.jobs import create_rebuild, retry_build, run_build
from knowledge.indexing.points import generations, point_ids, remove_points, stale_documents
from knowledge.indexing.rebuild import preview_rebuild, rollback_agent_index
from knowledge.models import Chunk, Document, IndexBuild
from knowledge.search import PlannedPoint
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, fresh, make_agent, make_deployment
from tests.failing_store import failing_store
from tests.hashing import HashingEmbedder

QA, LEGACY = IndexingMethod.QA_ATOMIC, IndexingMethod.LEGACY


class GenerationTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent)
        self.store = vector_store()

    def live(self, method: IndexingMethod = QA) -> str | None:
        return self.store.resolve_alias(collection_alias(self.agent.slug, method))

    def rebuild(self, method: IndexingMethod = QA) -> IndexBuild:
        build = create_rebuild(agent=self.agent, method=method)
        run_build(build.pk)
        return fresh(build)

    def failed_rebuild(self) -> IndexBuild:
        build = create_rebuild(agent=self.agent, method=QA)
        with (
            mock.patch("knowledge.indexing.points.WRITE_BATCH", 2),
            failing_store("", after=1),
            pytest.raises(VectorStoreUnavailableError),
        ):
            run_build(build.pk)
        return build

    def test_rollback_never_lands_on_what_a_failed_rebuild_left(self) -> None:
        good = self.live()
        failed = self.failed_rebuild()
        assert self.live() == good
        self.rebuild()
        assert failed.generation not in generations(self.store, self.agent, QA)
        assert rollback_agent_index(agent=self.agent, method=QA) == good
        assert self.store.count(collection_alias(self.agent.slug, QA)) == 5

    def test_rebuild_after_a_rollback_drops_the_rejected_generation(self) -> None:
        first = self.live()
        rejected = self.rebuild().generation
        rollback_agent_index(agent=self.agent, method=QA)
        self.rebuild()
        assert rejected not in generations(self.store, self.agent, QA)
        assert rollback_agent_index(agent=self.agent, method=QA) == first

    def test_rollback_to_another_embedding_model_is_refused(self) -> None:
        other = HashingEmbedder(dimensions=128)
        with (
            mock.patch("knowledge.indexing.rebuild.embedder", return_value=other),
            mock.patch("knowledge.indexing.points.embedder", return_value=other),
        ):
            current = self.rebuild().generation
            with pytest.raises(EmbeddingMismatchError, match="another embedding model"):
                rollback_agent_index(agent=self.agent, method=QA)
        assert self.live() == current

    def test_rollback_of_two_methods_moves_both_or_none(self) -> None:
        make_deployment(self.agent, config_overlay={"indexing_method": "legacy"})
        add_document(self.agent)
        current = {QA: self.live(QA), LEGACY: self.rebuild(LEGACY).generation}
        for arguments in ([], ["--json"]):
            with pytest.raises(CommandError, match="legacy|qr_atomique"):
                call_command("rebuild_agent_index", self.agent.slug, "--rollback", *arguments, stdout=io.StringIO())
        assert {method: self.live(method) for method in current} == current

    def test_rebuild_moves_the_alias_and_embeds_nothing_that_is_unchanged(self) -> None:
        before = self.live()
        with mock.patch.object(HashingEmbedder, "_embed_batch") as embed:
            build = self.rebuild()
        assert embed.call_count == 0
        assert build.status == JobStatus.DONE
        assert self.live() == build.generation != before
        assert build.report["points"] == self.store.count(collection_alias(self.agent.slug, QA)) == 5

    def test_two_generations_are_kept(self) -> None:
        for _ in range(3):
            self.rebuild()
        assert len(generations(self.store, self.agent, QA)) == 2

    def test_abandoned_rebuild_is_resumed_in_its_own_generation(self) -> None:
        build = create_rebuild(agent=self.agent, method=QA)
        IndexBuild.objects.filter(pk=build.pk).update(
            status=JobStatus.RUNNING, lease_expires_at=timezone.now() - timedelta(seconds=1)
        )
        resumed = self.rebuild()
        assert (resumed.pk, resumed.status) == (build.pk, JobStatus.DONE)

    def test_preview_counts_what_a_rebuild_would_change(self) -> None:
        chunk = Chunk.objects.filter(document__agent=self.agent).waiting().get()
        Chunk.objects.filter(pk=chunk.pk).update(content="Autre règlement.")
        Chunk.objects.filter(content__contains="12 euros").delete()
        diff = preview_rebuild(agent=self.agent, method=QA)
        assert (diff["added"], diff["removed"], diff["changed"]) == (0, 2, 1)


class WrittenMeanwhileTests(TestCase):
    """Another process writes at the worst moment of a rebuild: nothing of it is lost."""

    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent)
        self.alias = collection_alias(self.agent.slug, QA)
        self.store = vector_store()

    def stored(self, document: Document) -> int:
        ids = point_ids(document.chunks.all())
        return len(self.store.fetch(self.alias, ids))

    def rebuild_with(self, *, before: str, act: Callable[[], object]) -> None:
        """A rebuild during which `act` happens once, just before a step of it."""
        real = getattr(rebuild, before)
        done: list[object] = []

        def step(*arguments: Any, **options: Any) -> Any:
            if not done:
                done.append(act())
            return real(*arguments, **options)

        with mock.patch.object(rebuild, before, step):
            run_build(create_rebuild(agent=self.agent, method=QA).pk)
        assert done

    def test_document_indexed_after_the_last_pass_or_just_after_the_alias_moved_is_kept(self) -> None:
        for step in ("_verify", "note_indexed"):
            self.rebuild_with(before=step, act=partial(add_document, self.agent, name=f"{step}.md"))
            assert self.stored(self.agent.documents.get(name=f"{step}.md")) == 5

    def test_document_deleted_after_the_last_pass_leaves_no_points(self) -> None:
        add_document(self.agent, name="second.md")

        def delete() -> None:
            document = self.agent.documents.get(name="second.md")
            ids = point_ids(document.chunks.all())
            document.delete()
            remove_points(agent_slug=self.agent.slug, ids=ids)

        self.rebuild_with(before="_verify", act=delete)
        assert self.store.count(self.alias) == 5

    def test_document_indexed_while_the_new_generation_catches_up_is_kept(self) -> None:
        live = self.store.resolve_alias(self.alias)
        real = points.plan_agent

        def plan(agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
            late = agent.documents.filter(name="late.md")
            planned = list(real(agent, method))
            if self.store.resolve_alias(self.alias) != live and not late.exists():
                add_document(agent, name="late.md")
            return iter(planned)

        with mock.patch.object(rebuild, "plan_agent", plan):
            run_build(create_rebuild(agent=self.agent, method=QA).pk)
        assert self.stored(self.agent.documents.get(name="late.md")) == 5
        assert stale_documents(self.agent) == []

    def test_rebuild_cut_after_the_alias_moved_is_completed_without_filling_again(self) -> None:
        build = create_rebuild(agent=self.agent, method=QA)
        with (
            mock.patch.object(rebuild, "note_indexed", side_effect=VectorStoreUnavailableError("x")),
            pytest.raises(VectorStoreUnavailableError),
        ):
            run_build(build.pk)
        assert self.store.resolve_alias(self.alias) == build.generation
        add_document(self.agent, name="late.md")
        retry_build(build)
        with mock.patch("knowledge.indexing.rebuild.fill_generation", side_effect=AssertionError):
            report = run_build(build.pk)
        assert report is not None
        assert (report.documents, report.points) == (2, 10)
        assert self.store.count(self.alias) == 10
        assert stale_documents(self.agent) == []
