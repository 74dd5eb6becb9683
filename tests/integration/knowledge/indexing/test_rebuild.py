"""Generations: a rebuild moves the alias when it is complete, can be previewed, resumed and undone."""

from datetime import timedelta
from unittest import mock

import pytest
from django.test import TestCase
from django.utils import timezone

from agents.models import IndexingMethod, JobStatus
from knowledge.errors import RebuildInProgressError
from knowledge.indexing.jobs import create_rebuild, run_build
from knowledge.indexing.points import generations
from knowledge.indexing.rebuild import diff_agent_index
from knowledge.models import Chunk, IndexBuild
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, make_agent
from tests.hashing import HashingEmbedder

QA = IndexingMethod.QA_ATOMIC


class RebuildTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent)
        self.alias = collection_alias(self.agent.slug, QA)
        self.store = vector_store()

    def rebuild(self) -> IndexBuild:
        build = create_rebuild(agent=self.agent, method=QA)
        run_build(build.pk)
        build.refresh_from_db()
        return build

    def test_rebuild_moves_the_alias_and_embeds_nothing_that_is_unchanged(self) -> None:
        before = self.store.resolve_alias(self.alias)
        with mock.patch.object(HashingEmbedder, "_embed_batch") as embed:
            build = self.rebuild()
        assert embed.call_count == 0
        assert build.status == JobStatus.DONE
        assert self.store.resolve_alias(self.alias) == build.generation != before
        assert build.report["points"] == self.store.count(self.alias) == 5

    def test_two_generations_are_kept(self) -> None:
        for _ in range(3):
            self.rebuild()
        assert len(generations(self.store, self.agent, QA)) == 2

    def test_second_rebuild_at_the_same_time_fails_at_once(self) -> None:
        create_rebuild(agent=self.agent, method=QA)
        with pytest.raises(RebuildInProgressError):
            create_rebuild(agent=self.agent, method=QA)

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
        diff = diff_agent_index(agent=self.agent, method=QA)
        assert (diff["added"], diff["removed"], diff["changed"]) == (0, 2, 1)
