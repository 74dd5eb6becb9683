"""A method in use without an index gets a whole one, whichever door noticed, and never one with the last file only."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from django.core.management import CommandError
from django.test import TestCase

from agents.models import Agent, Deployment, IndexingMethod, JobKind, JobStatus
from knowledge.embeddings.base import embedder
from knowledge.errors import CollectionMissingError
from knowledge.indexing.jobs import create_rebuild, enqueue_documents, reconcile_agent, run_build
from knowledge.indexing.path import store_document
from knowledge.indexing.points import current_generation
from knowledge.models import IndexBuild
from knowledge.search import PlannedPoint, answers_above
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, make_agent, make_deployment
from tests.terminal import run

LEGACY = IndexingMethod.LEGACY
NEW = "# Nouveau\n\n## Où est la mairie ?\n\nPlace du Marché.\n"


class MissingIndexTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        add_document(self.agent)
        make_deployment(self.agent)
        # As a script or a restored backup does it: nothing is told to the jobs.
        Deployment.objects.update(config_overlay={"indexing_method": "legacy"})
        self.agent = Agent.objects.get(pk=self.agent.pk)
        self.alias = collection_alias(self.agent.slug, LEGACY)
        self.store = vector_store()

    def add_with_command(self) -> None:
        folder = Path(self.enterContext(TemporaryDirectory()))
        (folder / "new.md").write_text(NEW)
        assert run("add_documents", self.agent.slug, folder)["documents"] == 1

    def test_adding_one_file_builds_the_whole_index(self) -> None:
        self.add_with_command()
        assert self.store.count(self.alias) == 4

    def test_adding_one_file_runs_a_rebuild_that_waits_already(self) -> None:
        waiting = create_rebuild(agent=self.agent, method=LEGACY)
        self.add_with_command()
        assert self.store.resolve_alias(self.alias) == waiting.generation
        assert self.store.count(self.alias) == 4

    def test_job_that_adds_a_file_queues_a_rebuild(self) -> None:
        stored = store_document(agent=self.agent, name="new.md", data=NEW.encode())
        run_build(enqueue_documents(agent=self.agent, document_ids=[stored.document.pk]).pk)
        assert self.store.resolve_alias(self.alias) is None
        rebuild = IndexBuild.objects.get(kind=JobKind.REBUILD)
        assert (rebuild.method, rebuild.status) == (LEGACY, JobStatus.QUEUED)
        run_build(rebuild.pk)
        assert self.store.count(self.alias) == 4

    def test_no_writer_makes_an_empty_index_for_an_agent_with_documents(self) -> None:
        with pytest.raises(CollectionMissingError):
            current_generation(self.store, self.agent, LEGACY, embedder().recipe)

    def test_qdrant_init_names_the_index_that_must_be_built(self) -> None:
        with pytest.raises(CommandError, match="rebuild_agent_index"):
            run("qdrant_init")
        assert self.store.resolve_alias(self.alias) is None

    def test_points_of_other_apps_are_content_too(self) -> None:
        agent = make_agent(indexing_method=LEGACY)

        def faq(owner: Agent, _method: IndexingMethod) -> Iterator[PlannedPoint]:
            if owner == agent:
                yield PlannedPoint(
                    id="11111111-1111-5111-8111-111111111111",
                    payload={"type": "qa_pair", "question": "Bonjour ?", "display_text": "Oui."},
                )

        with mock.patch.object(answers_above(), "plan_points", faq):
            add_document(agent)
            (build,) = reconcile_agent(agent.pk)
            run_build(build.pk)
        assert self.store.count(collection_alias(agent.slug, LEGACY)) == 4
