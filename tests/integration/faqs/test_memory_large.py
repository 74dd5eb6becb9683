"""A memory in an array and one in a collection of its own promise the same; the rows stay the truth of both."""

import json
from datetime import timedelta
from io import StringIO
from unittest import mock

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.models import Deployment
from faqs import tasks
from faqs.memory.array import stored_mark
from faqs.memory.entries import delete_entries, report_pair, set_status, validate_entries
from faqs.memory.large import (
    follow_index,
    follow_indexes,
    is_indexed,
    leave_index,
    memory_alias,
    memory_store,
    rebuild_index,
    repair_index,
    tidy_indexes,
)
from faqs.models import CachedResponse, EntryStatus, MemoryShelf, StatusReason
from knowledge.embeddings.base import Purpose, embedder
from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.vectors.base import Point, VectorStore
from tests.admin_pages import superuser_client
from tests.factories import make_deployment, make_entry, recall

QUESTION = "Quels sont les horaires de la piscine ?"
OTHER = "Où est la gare ?"
STORES = {
    **settings.VECTOR_STORES,
    "qdrant": {"BACKEND": "knowledge.vectors.qdrant.QdrantVectorStore", "OPTIONS": {"url": ":memory:"}},
}


def shelf_of(deployment: Deployment) -> MemoryShelf:
    return MemoryShelf.objects.get(deployment=deployment)


def served(deployment: Deployment, question: str = QUESTION) -> str | None:
    found = recall(deployment, question)
    return found.answer.text if found.answer else None


def store() -> VectorStore:
    found = memory_store()
    assert found is not None
    return found


class Contract:
    """What a lookup promises; `settle` is what happens between a write and the next question."""

    deployment: Deployment

    def setUp(self) -> None:
        self.deployment = make_deployment()
        make_entry(self.deployment, OTHER, "Au nord.")
        self.begin()

    def begin(self) -> None: ...

    def settle(self) -> None: ...

    def ask(self, question: str = QUESTION) -> str | None:
        self.settle()
        return served(self.deployment, question)

    def test_entry_answers_and_its_use_is_counted(self) -> None:
        entry = make_entry(self.deployment, answer="9 h")
        assert self.ask() == "9 h"
        entry.refresh_from_db()
        assert entry.usage_count == 2
        assert self.ask(OTHER) == "Au nord."

    def test_entry_that_changed_answers_as_changed(self) -> None:
        make_entry(self.deployment, answer="9 h")
        assert self.ask() == "9 h"
        make_entry(self.deployment, answer="10 h")
        assert self.ask() == "10 h"

    def test_deleted_entry_no_longer_answers(self) -> None:
        entry = make_entry(self.deployment)
        assert self.ask() is not None
        delete_entries(CachedResponse.objects.filter(pk=entry.pk))
        assert self.ask() is None
        assert self.ask(OTHER) == "Au nord."

    def test_entry_set_aside_answers_again_once_validated(self) -> None:
        chosen = CachedResponse.objects.filter(pk=make_entry(self.deployment, answer="9 h").pk)
        set_status(chosen, EntryStatus.OBSOLETE, StatusReason.STAFF)
        assert self.ask() is None
        validate_entries(chosen)
        assert self.ask() == "9 h"

    def test_other_deployments_and_audiences_are_not_answered(self) -> None:
        make_entry(self.deployment, audience="signed_in")
        make_entry(make_deployment(slug="autre"), answer="ailleurs")
        self.settle()
        found = recall(self.deployment, QUESTION)
        assert [verdict.refusal for verdict in found.refused] == ["audience"]

    def test_too_old_entry_is_not_given(self) -> None:
        entry = make_entry(self.deployment, created_at=timezone.now() - timedelta(days=200))
        self.settle()
        found = recall(self.deployment, QUESTION, auto_prune=False)
        assert [(each.entry_id, each.refusal) for each in found.refused] == [(entry.pk, "expired")]

    def test_most_recent_of_equals_answers(self) -> None:
        now = timezone.now()
        for days, phase in ((3, "a"), (1, "b"), (2, "c")):
            make_entry(
                self.deployment, answer=f"il y a {days} jours", phase=phase, created_at=now - timedelta(days=days)
            )
        assert self.ask() == "il y a 1 jours"

    def test_reported_pair_is_never_given_again(self) -> None:
        entry = make_entry(self.deployment)
        report_pair(entry_id=entry.pk, question=QUESTION)
        validate_entries(CachedResponse.objects.filter(pk=entry.pk))
        self.settle()
        assert [each.refusal for each in recall(self.deployment, QUESTION).refused] == ["reported"]

    def test_another_number_is_refused_with_its_reason(self) -> None:
        make_entry(self.deployment, "Quel est le tarif de la piscine en 2023 ?", "3 euros")
        self.settle()
        found = recall(self.deployment, "Quel est le tarif de la piscine en 2024 ?")
        assert found.answer is None
        assert "2023 ≠ 2024" in found.refused[0].explanation


class ArrayTests(Contract, TestCase):
    pass


@override_settings(VECTOR_STORES=STORES)
class CollectionTests(Contract, TestCase):
    """Brought to the rows before each question."""

    def begin(self) -> None:
        rebuild_index(shelf_of(self.deployment))
        self.addCleanup(leave_index, shelf_of(self.deployment))

    def settle(self) -> None:
        follow_index(shelf_of(self.deployment))
        mark = stored_mark(self.deployment.pk)
        assert mark is not None
        assert is_indexed(mark, embedder().recipe)
        assert mark.indexed_version == mark.version


@override_settings(VECTOR_STORES=STORES)
class LateCollectionTests(Contract, TestCase):
    """Not brought to the rows: what was written since is seen all the same."""

    def begin(self) -> None:
        rebuild_index(shelf_of(self.deployment))
        self.addCleanup(leave_index, shelf_of(self.deployment))


@override_settings(VECTOR_STORES=STORES)
class FollowingTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_deployment()
        self.entry = make_entry(self.deployment, answer="9 h")
        self.shelf = shelf_of(self.deployment)
        rebuild_index(self.shelf)
        self.addCleanup(leave_index, self.shelf)

    def points(self) -> int:
        return store().count(memory_alias(self.shelf.uuid))

    def test_only_what_changed_is_written(self) -> None:
        for number in range(5):
            make_entry(self.deployment, f"Question numéro {number} ?", "Oui.")
        assert follow_index(self.shelf).written == 5
        assert follow_index(self.shelf).written == 0
        assert self.points() == 6

    def test_point_without_a_row_and_stale_point_answer_nothing(self) -> None:
        vector = embedder().embed_one(QUESTION, purpose=Purpose.QUERY)
        store().upsert(
            memory_alias(self.shelf.uuid),
            [Point("00000000-0000-4000-8000-000000000001", vector, {"entry": self.entry.pk + 99})],
        )
        CachedResponse.objects.filter(pk=self.entry.pk)._raw_delete(using="default")
        assert served(self.deployment) is None

    def test_drift_is_repaired_from_the_rows(self) -> None:
        name = store().resolve_alias(memory_alias(self.shelf.uuid))
        assert name is not None
        for point in [p for batch in store().scroll(name) for p in batch]:
            store().delete(name, [point.id])
        assert served(self.deployment) is None
        assert repair_index(self.shelf).rebuilt
        assert served(self.deployment) == "9 h"
        assert store().resolve_alias(memory_alias(self.shelf.uuid)) != name
        assert name not in {info.name for info in store().collections()}

    @override_settings(MEMORY_PURGE_VERSIONS=2)
    def test_collection_that_missed_forgotten_deletions_is_made_anew(self) -> None:
        delete_entries(CachedResponse.objects.filter(pk=self.entry.pk))
        for number in range(5):
            make_entry(self.deployment, f"Question numéro {number} ?", "Oui.")
        assert follow_index(self.shelf).rebuilt
        assert self.points() == 5

    def test_store_that_is_down_leaves_the_latest_entries_and_breaks_nothing(self) -> None:
        make_entry(self.deployment, OTHER, "Au nord.")
        away = VectorStoreUnavailableError("down")
        with mock.patch.object(type(store()), "query", side_effect=away):
            assert served(self.deployment) is None
            assert served(self.deployment, OTHER) == "Au nord."
        with mock.patch.object(type(store()), "upsert", side_effect=away):
            follow_indexes(count=False)
            with pytest.raises(VectorStoreUnavailableError):
                rebuild_index(self.shelf)
        assert served(self.deployment) == "9 h"
        follow_indexes(count=False)
        assert self.points() == 2

    def test_memory_that_grew_is_given_a_collection_by_the_worker(self) -> None:
        other = make_deployment(slug="autre")
        for number in range(3):
            make_entry(other, f"Question numéro {number} ?", "Oui.")
        self.addCleanup(leave_index, shelf_of(other))
        with override_settings(MEMORY_COMFORTABLE_ENTRIES=2):
            tasks.follow_indexes(True)
        assert shelf_of(other).indexed_recipe
        assert served(other, "Question numéro 1 ?") == "Oui."

    def test_worker_prunes_what_no_lookup_sees(self) -> None:
        old = timezone.now() - timedelta(days=200)
        CachedResponse.objects.filter(pk=self.entry.pk).update(confirmed_at=old)
        follow_indexes(count=True)
        assert not CachedResponse.objects.exists()

    def test_timer_sends_a_task_only_where_there_is_something_to_do(self) -> None:
        with mock.patch("agents.processes.asking.current_app.send_task") as sent:
            tidy_indexes()
            tidy_indexes()
            make_entry(self.deployment, OTHER, "Au nord.")
            tidy_indexes()
        assert [call.kwargs["args"] for call in sent.call_args_list] == [[True], [False]]
        assert {call.args for call in sent.call_args_list} == {(tasks.follow_indexes.name,)}

    def test_deleting_the_deployment_removes_the_collection(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            self.deployment.delete()
        assert store().resolve_alias(memory_alias(self.shelf.uuid)) is None

    def test_command_fills_repairs_and_leaves(self) -> None:
        leave_index(self.shelf)
        out = StringIO()
        call_command("index_memory", self.deployment.slug, "--json", stdout=out)
        row = json.loads(out.getvalue())["memories"][0]
        assert (row["written"], row["rebuilt"]) == (1, True)
        call_command("index_memory", self.deployment.slug, "--leave", stdout=out)
        assert not shelf_of(self.deployment).indexed_recipe
        assert served(self.deployment) == "9 h"


class WithoutQdrantTests(TestCase):
    def test_command_says_what_to_set(self) -> None:
        with pytest.raises(CommandError, match="QDRANT_URL"):
            call_command("index_memory")

    @override_settings(MEMORY_COMFORTABLE_ENTRIES=1)
    def test_array_goes_on_and_staff_are_told_the_size(self) -> None:
        deployment = make_deployment()
        make_entry(deployment, OTHER, "Au nord.")
        make_entry(deployment)
        tidy_indexes()
        assert served(deployment, OTHER) == "Au nord."
        page = superuser_client().get("/admin/faqs/cachedresponse/").content.decode()
        assert "QDRANT_URL" in page
        assert str(deployment) in page

    def test_no_notice_for_a_small_memory(self) -> None:
        make_entry(make_deployment())
        page = superuser_client().get("/admin/faqs/cachedresponse/").content.decode()
        assert "QDRANT_URL" not in page
