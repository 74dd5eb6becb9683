"""The commands of the vector store, on whichever store is configured."""

import io
import json
import uuid
from typing import Any

import numpy as np
import pytest
from django.core.files.base import ContentFile
from django.core.management import CommandError, call_command
from django.test import TestCase, override_settings

from agents.models import Agent, IndexingMethod, JobKind, JobStatus
from knowledge.embeddings.base import Recipe, embedder
from knowledge.errors import EmbeddingMismatchError
from knowledge.management.commands.migrate_vectors import migrate_vectors
from knowledge.models import IndexBuild
from knowledge.vectors.base import Json, Point, VectorStore, collection_alias, vector_store
from knowledge.vectors.table import TableVectorStore
from tests.factories import add_document, make_agent
from tests.in_process_qdrant import InProcessQdrant
from tests.terminal import run

ALIAS = "agent_aide_qr_atomique"
OLDEST, OLDER, CURRENT, BROKEN = (f"{ALIAS}_2026112{day}T035500123456" for day in range(4))
TABLE = {"BACKEND": "knowledge.vectors.table.TableVectorStore"}
MEMORY = {"BACKEND": "tests.in_process_qdrant.InProcessQdrant"}


def fill(store: VectorStore, name: str, count: int, **payload: Json) -> None:
    recipe = embedder().recipe
    store.ensure(name, recipe)
    rows = np.random.default_rng(count).normal(size=(count, recipe.dimensions)).astype(np.float32)
    store.upsert(name, [Point(str(uuid.UUID(int=n)), row, {"n": n, **payload}) for n, row in enumerate(rows, start=1)])


def contents(store: VectorStore, name: str) -> dict[str, Any]:
    return {p.id: p.payload for batch in store.scroll(name) for p in batch}


class StoreCommandTests(TestCase):
    def setUp(self) -> None:
        self.store = vector_store()
        self.addCleanup(lambda: [self.store.drop(i.name) for i in self.store.collections()])

    def generations(self) -> None:
        for name in (OLDEST, OLDER, CURRENT, BROKEN):
            fill(self.store, name, 3)
        self.store.point_alias(ALIAS, CURRENT)
        self.store.point_alias(f"{ALIAS}_previous", OLDER)

    def names(self) -> list[str]:
        return [info.name for info in self.store.collections()]

    def test_init_gives_each_agent_its_collections_once(self) -> None:
        Agent.objects.create(slug="aide", name="Aide")
        first, again = run("qdrant_init"), run("qdrant_init")
        assert [row["state"] for row in first["indexes"]] == ["created"]
        assert [row["state"] for row in again["indexes"]] == ["ready"]
        assert self.store.resolve_alias(ALIAS) == first["indexes"][0]["collection"]

    def test_init_names_an_index_of_another_model(self) -> None:
        Agent.objects.create(slug="aide", name="Aide")
        self.store.ensure(OLDEST, Recipe(model="another", dimensions=3))
        self.store.point_alias(ALIAS, OLDEST)
        with pytest.raises(CommandError, match="rebuild_agent_index"):
            call_command("qdrant_init", stdout=io.StringIO())

    def test_stats_count_points_and_name_aliases(self) -> None:
        fill(self.store, CURRENT, 3)
        self.store.ensure("ancien", Recipe(model="another", dimensions=3))
        self.store.point_alias(ALIAS, CURRENT)
        stats = run("qdrant_stats")
        assert stats["points"] == 3
        by_name = {row["name"]: row for row in stats["collections"]}
        assert by_name[CURRENT]["aliases"] == [ALIAS]
        assert by_name[CURRENT]["is_current_model"]
        assert not by_name["ancien"]["is_current_model"]

    def test_cleanup_keeps_current_and_previous_generation(self) -> None:
        self.generations()
        fill(self.store, "learned_responses", 1)
        assert run("qdrant_cleanup", "--dry-run")["dropped"] == [OLDEST, BROKEN]
        assert len(self.names()) == 5
        assert run("qdrant_cleanup")["dropped"] == [OLDEST, BROKEN]
        assert self.names() == [OLDER, CURRENT, "learned_responses"]

    def test_cleanup_spares_what_a_running_build_fills(self) -> None:
        self.generations()
        agent = Agent.objects.create(slug="aide", name="Aide")
        IndexBuild.objects.create(
            agent=agent,
            kind=JobKind.REBUILD,
            status=JobStatus.RUNNING,
            payload={"method": IndexingMethod.QA_ATOMIC, "generation": BROKEN},
        )
        assert run("qdrant_cleanup")["dropped"] == [OLDEST]

    def test_cleanup_without_a_current_generation_keeps_the_newest(self) -> None:
        fill(self.store, OLDEST, 1)
        fill(self.store, OLDER, 1)
        assert run("qdrant_cleanup")["dropped"] == [OLDEST]


class MigrationTests(TestCase):
    def setUp(self) -> None:
        self.table: VectorStore = TableVectorStore()
        self.qdrant: VectorStore = InProcessQdrant()
        fill(self.table, CURRENT, 620, accent="é")
        fill(self.table, "learned_responses", 2)
        self.table.point_alias(ALIAS, CURRENT)

    def test_everything_is_copied_both_ways(self) -> None:
        steps: list[tuple[int, int]] = []
        report = migrate_vectors(
            source=self.table, target=self.qdrant, on_progress=lambda done, total: steps.append((done, total))
        )
        assert (report["points"], report["aliases"]) == (622, [ALIAS])
        assert steps[-1] == (622, 622)
        assert self.qdrant.collections() == self.table.collections()
        before = contents(self.table, CURRENT)
        self.table.drop(CURRENT)
        migrate_vectors(source=self.qdrant, target=self.table)
        assert contents(self.table, ALIAS) == before

    def test_second_run_follows_changes_of_the_source(self) -> None:
        migrate_vectors(source=self.table, target=self.qdrant)
        self.table.delete(CURRENT, [str(uuid.UUID(int=1))])
        self.table.ensure(BROKEN, embedder().recipe)
        self.table.point_alias(ALIAS, BROKEN)
        report = migrate_vectors(source=self.table, target=self.qdrant)
        assert report["removed"] == 1
        assert self.qdrant.resolve_alias(ALIAS) == BROKEN
        assert contents(self.qdrant, CURRENT) == contents(self.table, CURRENT)

    def test_another_recipe_in_the_target_is_refused(self) -> None:
        self.qdrant.ensure(CURRENT, Recipe(model="another", dimensions=3))
        with pytest.raises(EmbeddingMismatchError):
            migrate_vectors(source=self.table, target=self.qdrant)

    @override_settings(VECTOR_STORES={"default": TABLE, "table": TABLE, "qdrant": MEMORY})
    def test_command_copies_and_reports(self) -> None:
        report = run("migrate_vectors")
        assert report["points"] == 622
        assert report["collections"] == [CURRENT, "learned_responses"]

    @override_settings(VECTOR_STORES={"default": TABLE, "table": TABLE})
    def test_command_says_what_to_do_about_a_wrong_store(self) -> None:
        with pytest.raises(CommandError, match="QDRANT_URL"):
            call_command("migrate_vectors", "--from", "table", "--to", "qdrant")
        with pytest.raises(CommandError, match="same store"):
            call_command("migrate_vectors", "--from", "table", "--to", "default")


class IntegrityTests(TestCase):
    def test_what_lacks_its_file_or_its_point_is_told_and_fails(self) -> None:
        document = add_document(agent := make_agent())
        assert run("check_integrity")["documents_without_file"] == {}
        storage, store = document.file.storage, vector_store()
        stray = storage.save("ab/stray.md", ContentFile(b"nobody's"))
        storage.delete(str(document.file.name))
        alias = collection_alias(agent.slug, IndexingMethod.QA_ATOMIC)
        store.delete(alias, list(contents(store, alias))[:1])
        fill(store, alias, 1)
        out = io.StringIO()
        with pytest.raises(CommandError, match=f"rebuild_agent_index {agent.slug}"):
            call_command("check_integrity", "--json", stdout=out)
        told = json.loads(out.getvalue())
        assert told["documents_without_file"] == {document.file.name: document.name}
        assert stray in told["files_without_row"]
        assert [(row["added"], row["removed"], row["changed"]) for row in told["indexes"]] == [(1, 1, 0)]
