"""The indexes of a deleted agent go, and nothing of an agent that took its name since."""

from unittest import mock

from django.test import TestCase

from agents.jobs import run_job
from agents.models import IndexingMethod, Job, JobKind
from knowledge.errors import VectorStoreUnavailableError
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import add_document, make_agent

ALIAS = collection_alias("aide", IndexingMethod.QA_ATOMIC)


class DeletedAgentTests(TestCase):
    def setUp(self) -> None:
        self.store = vector_store()
        self.agent = make_agent(slug="aide")
        add_document(self.agent)

    def delete(self) -> None:
        """Delete the agent while no worker runs."""
        with mock.patch("agents.jobs.nudge"), self.captureOnCommitCallbacks(execute=True):
            self.agent.delete()

    def work(self) -> None:
        [job] = Job.objects.filter(kind=JobKind.DROP_INDEXES)
        run_job(job.pk)

    def test_every_generation_of_a_deleted_agent_goes(self) -> None:
        self.delete()
        self.work()
        assert [info.name for info in self.store.collections()] == []

    def test_late_cleanup_spares_the_index_of_a_new_agent_of_that_name(self) -> None:
        self.delete()
        add_document(make_agent(slug="aide"))
        self.work()
        assert self.store.count(ALIAS) == 5
        assert len(self.store.collections()) == 1

    def test_new_agent_does_not_take_over_an_index_that_waits_to_be_dropped(self) -> None:
        old = self.store.resolve_alias(ALIAS)
        self.delete()
        assert self.store.resolve_alias(ALIAS) is None
        add_document(make_agent(slug="aide"))
        assert self.store.resolve_alias(ALIAS) != old

    def test_store_that_is_away_at_the_deletion_is_tidied_later(self) -> None:
        with mock.patch.object(type(self.store), "collections", side_effect=VectorStoreUnavailableError("away")):
            self.delete()
        self.work()
        assert self.store.collections() == []

    def test_tidying_later_spares_the_index_of_a_new_agent_of_that_name(self) -> None:
        with mock.patch.object(type(self.store), "collections", side_effect=VectorStoreUnavailableError("away")):
            self.delete()
        add_document(make_agent(slug="aide"))
        self.work()
        assert self.store.count(ALIAS) >= 5
