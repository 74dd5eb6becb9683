"""`import_memory`, `export_memory`, `prune_memory`: the seed's file in and out."""

import sqlite3
from array import array
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import TestCase, override_settings
from django.utils import timezone

from faqs.memory import PHASE, Scope, key_hash
from faqs.memory_file import SCHEMA
from faqs.models import CachedResponse, EntryStatus
from knowledge.models import Chunk
from tests.factories import make_deployment, make_entry, make_library, recall, source_of
from tests.terminal import run

QUESTION = "Quels sont les horaires de la piscine ?"


class MemoryFileTests(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    def rows(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as file:
            return list(file.execute("SELECT * FROM responses"))

    def write(self, *rows: tuple[Any, ...]) -> None:
        with closing(sqlite3.connect(self.path)) as file, file:
            file.executescript(SCHEMA)
            file.executemany(
                "INSERT INTO responses (question, answer, metadata, embedding, created_at, usage_count)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )

    def row(self, question: str = QUESTION, answer: str = "De 9 à 20 h.", **other: Any) -> Any:
        vector = array("f", [0.5] * 1536).tobytes()
        row = {
            "metadata": '{"phase": "APS", "project": "VRD", "authors": ["Ana"], "site": "nord"}',
            "embedding": vector,
            "created_at": timezone.now().isoformat(),
            "usage_count": 7,
        }
        return (question, answer, *{**row, **other}.values())

    def test_export_writes_exactly_the_table_and_indexes_of_the_seed(self) -> None:
        make_entry()
        assert run("export_memory", make_deployment().slug, str(self.path))["exported"] == 0
        with override_settings(MEMORY_DB_PATH=str(self.path)):
            assert run("export_memory")["exported"] == 1
        with closing(sqlite3.connect(self.path)) as file:
            columns = [row[1:3] for row in file.execute("PRAGMA table_info(responses)")]
            indexes = {row[1] for row in file.execute("PRAGMA index_list(responses)")}
        texts = [(name, "TEXT") for name in ("key_hash", "question", "answer", "metadata")]
        rest = [("embedding", "BLOB"), ("created_at", "TEXT"), ("usage_count", "INTEGER")]
        assert columns == [("id", "INTEGER"), *texts, *rest]
        assert indexes == {"idx_responses_key_hash", "idx_responses_created_at"}

    def test_export_and_import_give_the_same_entries(self) -> None:
        here = make_library()
        chunk = Chunk.objects.order_by("pk")[0]
        entry = make_entry(here, authors=["model"], sources=[source_of(chunk)])
        recall(here, QUESTION)
        assert run("export_memory", here.slug, str(self.path))["exported"] == 1
        assert self.rows()[0][1] == entry.key_hash

        there = make_deployment(here.agent, slug="there")
        report = run("import_memory", "there", str(self.path))
        assert (report["imported"], report["embedded"], report["to_review"]) == (1, 0, 0)
        copy = CachedResponse.objects.get(deployment=there)
        assert (copy.question, copy.answer, copy.usage_count) == (QUESTION, entry.answer, 2)
        assert copy.created_at == entry.created_at
        assert copy.embedding == entry.embedding
        assert recall(there, QUESTION).answer is not None
        chunk.delete()
        assert recall(there, QUESTION).answer is None

    def test_file_of_the_seed_is_embedded_anew_and_answers(self) -> None:
        deployment = make_deployment()
        self.write(self.row())
        report = run("import_memory", deployment.slug, str(self.path))
        assert (report["imported"], report["embedded"], report["skipped"]) == (1, 1, [])
        entry = CachedResponse.objects.get()
        assert (entry.usage_count, entry.metadata["phase"]) == (7, "APS")
        assert (entry.metadata["authors"], entry.metadata["site"]) == (["Ana"], "nord")
        assert recall(deployment, QUESTION, scope=Scope("APS", "VRD")).answer is not None

    def test_entry_of_another_program_answers_only_in_the_phase_and_project_it_names(self) -> None:
        desk = make_deployment(slug="desk")
        inside = {
            '{"phase": "APS", "project": "VRD"}': Scope("APS", "VRD"),
            '{"phase": " APS "}': Scope("APS", "desk"),
            '{"project": "VRD"}': Scope(PHASE, "VRD"),
            '{"phase": "PRO", "projet": "VRD"}': Scope("PRO", "VRD"),
        }
        self.write(*(self.row(answer=text, metadata=text) for text in inside))
        assert run("import_memory", "desk", str(self.path))["imported"] == len(inside)
        assert recall(desk, QUESTION).answer is None
        assert recall(desk, QUESTION, scope=Scope("DCE", "VRD")).answer is None
        for text, scope in inside.items():
            given = recall(desk, QUESTION, scope=scope).answer
            assert given is not None
            assert given.text == text

    def test_entry_of_another_program_that_names_nothing_answers_where_nothing_is_named(self) -> None:
        for slug, text in (("a", ""), ("b", "{}"), ("c", '{"phase": "summary", "project": "c"}')):
            desk = make_deployment(slug=slug)
            self.path.unlink(missing_ok=True)
            self.write(self.row(metadata=text))
            run("import_memory", desk.slug, str(self.path))
            assert recall(desk, QUESTION).answer is not None, text
            assert recall(desk, QUESTION, scope=Scope("APS", desk.slug)).answer is None, text

    def test_entry_whose_key_another_scope_has_is_skipped_with_its_reason(self) -> None:
        desk = make_deployment()
        make_entry(desk, phase="AP", project="SVRD", is_scoped=True)
        self.write(self.row(metadata='{"phase": "APS", "project": "VRD"}'))
        report = run("import_memory", desk.slug, str(self.path))
        assert (report["imported"], [row["item"] for row in report["skipped"]]) == (0, ["1"])
        kept = CachedResponse.objects.get()
        assert kept.key_hash == key_hash(phase="APS", project="VRD", question=QUESTION)
        assert kept.metadata["phase"] == "AP"

    def test_importing_twice_doubles_nothing(self) -> None:
        self.write(self.row())
        with override_settings(MEMORY_DB_PATH=str(self.path)):
            make_deployment()
            assert run("import_memory")["imported"] == 1
            assert run("import_memory")["unchanged"] == 1
        assert CachedResponse.objects.count() == 1

    def test_rows_that_cannot_be_entries_are_skipped_with_their_reason(self) -> None:
        self.write(
            self.row(question=" "),
            self.row(answer="Non <NON VALIDE>"),
            self.row(created_at="hier"),
            self.row(metadata="[1]"),
            self.row(question="Je suis a@b.fr, quels horaires ?"),
            self.row(answer="x" * 30_000),
            self.row(),
        )
        report = run("import_memory", make_deployment().slug, str(self.path))
        assert report["imported"] == 1
        assert [row["item"] for row in report["skipped"]] == ["1", "2", "3", "4", "5", "6"]

    def test_nul_of_an_entry_is_left_out(self) -> None:
        self.write(self.row(question="Quels\0 horaires ?", answer="9\0 h.", metadata=r'{"note": "\ud800"}'))
        assert run("import_memory", make_deployment().slug, str(self.path))["imported"] == 1
        entry = CachedResponse.objects.get()
        assert (entry.question, entry.answer) == ("Quels horaires ?", "9 h.")
        assert entry.metadata["note"] == "\ufffd"

    def test_entries_can_wait_for_staff(self) -> None:
        self.write(self.row())
        run("import_memory", make_deployment().slug, str(self.path), "--to-review")
        assert CachedResponse.objects.get().status == EntryStatus.TO_REVIEW

    def test_file_that_is_no_memory_is_refused_by_name(self) -> None:
        slug = make_deployment().slug
        with pytest.raises(CommandError, match=r"memory\.db"):
            call_command("import_memory", slug, str(self.path))
        self.path.write_text("not a database, however long this text may be made")
        with pytest.raises(CommandError, match="responses"):
            call_command("import_memory", slug, str(self.path))

    def test_import_without_a_deployment_says_which_there_are(self) -> None:
        make_deployment(slug="one")
        make_deployment(slug="two")
        with pytest.raises(CommandError, match="one, two"):
            call_command("import_memory")


class PruneTests(TestCase):
    def test_prune_deletes_by_each_deployments_own_age(self) -> None:
        kept = make_deployment(config_overlay={"memory_max_age_days": 365})
        pruned = make_deployment()
        old = timezone.now() - timedelta(days=200)
        for deployment in (kept, pruned):
            make_entry(deployment, created_at=old)
        assert run("prune_memory") == {"deleted": 1, "to_review": 0}
        assert CachedResponse.objects.get().deployment == kept
        assert run("prune_memory", kept.slug, "--max-age-days", "30")["deleted"] == 1

    def test_prune_moves_overdue_and_outdated_entries_to_review(self) -> None:
        deployment = make_library()
        chunk = Chunk.objects.order_by("pk")[0]
        make_entry(deployment, sources=[source_of(chunk)])
        overdue = make_entry(deployment, "Où est la gare ?", "Au nord.")
        yesterday = timezone.localdate() - timedelta(days=1)
        CachedResponse.objects.filter(pk=overdue.pk).update(review_on=yesterday)
        Chunk.objects.update(content="Autre chose.")
        assert run("prune_memory")["to_review"] == 2
        reasons = set(CachedResponse.objects.values_list("status_reason", flat=True))
        assert reasons == {"chunk_changed", "review_due"}
