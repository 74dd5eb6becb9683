"""`add_documents FOLDER` a second time: what is unchanged is not read, what is gone is told and removed where asked
for.
"""

import errno
import io
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import TestCase

from agents.models import JobKind, JobStatus
from knowledge.indexing import questions
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import IndexBuild, SourceType
from knowledge.readers.registry import READER_VERSIONS
from tests.factories import add_document, make_agent
from tests.scripted import ScriptedLLM

TEXT = "# {0}\n\n## Partie\n\n" + "La carte {0} coûte 12 euros au guichet de la mairie. " * 6
#: Long enough ago that a file counts as settled.
AGO = time.time() - 60


class FolderAgainTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        for name in "abc":
            self.write(f"{name}.md", TEXT.format(name))

    def write(self, name: str, text: str, when: float = AGO) -> Path:
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (when, when))
        return path

    def add(self, *options: str) -> dict[str, Any]:
        out = io.StringIO()
        call_command("add_documents", self.agent.slug, str(self.folder), *options, "--json", stdout=out)
        told: dict[str, Any] = json.loads(out.getvalue())
        return told

    def told(self, *options: str) -> str:
        out = io.StringIO()
        call_command("add_documents", self.agent.slug, str(self.folder), *options, stdout=out)
        return out.getvalue()

    def names(self) -> set[str]:
        return set(self.agent.documents.values_list("name", flat=True))

    def test_unchanged_files_are_not_even_opened_and_count_as_they_are(self) -> None:
        first = self.add()
        with mock.patch.object(Path, "read_bytes", side_effect=AssertionError("opened")):
            second = self.add()
        assert (second["embedded"], second["unchanged"]) == (0, 3)
        same = ("documents", "chunks", "points", "waiting")
        assert [second[key] for key in same] == [first[key] for key in same]
        assert second["reused"] == first["points"]

    def test_changed_file_is_read_again_whatever_its_size(self) -> None:
        self.add()
        self.write("a.md", TEXT.format("a").replace("12", "15"), when=AGO + 1)
        told = self.add()
        assert (told["unchanged"], told["embedded"]) == (2, 1)

    def test_file_that_changed_a_moment_ago_is_compared_by_its_text(self) -> None:
        path = self.write("a.md", TEXT.format("a"), when=time.time())
        self.add()
        found = path.stat()
        path.write_text(TEXT.format("a").replace("12", "15"))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert self.add()["embedded"] == 1

    def test_unchanged_files_are_read_once_more_by_new_readers_and_keep_their_vectors(self) -> None:
        self.add()
        with mock.patch.dict(READER_VERSIONS, {SourceType.MARKDOWN: READER_VERSIONS[SourceType.MARKDOWN] + 1}):
            told = self.add()
            assert (told["documents"], told["embedded"], told.get("unchanged", 0)) == (3, 0, 0)
            assert self.add()["unchanged"] == 3
            assert "unchanged" not in self.add("--again")

    def test_file_that_is_gone_is_told_and_stays_until_pruned(self) -> None:
        self.add()
        (self.folder / "b.md").unlink()
        assert "1 documents answer whose files are gone (--prune removes them): b.md" in self.told()
        assert "b.md" in self.names()
        told = self.add("--prune", "--yes")
        assert (told["gone_files"], told["pruned"]) == (["b.md"], 1)
        assert self.names() == {"a.md", "c.md"}
        assert "gone_files" not in self.add()

    def test_pruning_asks_and_without_a_terminal_wants_yes(self) -> None:
        self.add()
        (self.folder / "b.md").unlink()
        with pytest.raises(CommandError, match="--yes"):
            self.add("--prune")
        with mock.patch("sys.stdin.isatty", return_value=True), mock.patch("builtins.input", return_value="n"):
            self.told("--prune")
        assert "b.md" in self.names()

    def test_documents_of_other_doors_and_folders_are_never_pruned(self) -> None:
        add_document(self.agent, name="envoyé.md")
        with TemporaryDirectory() as other:
            (Path(other) / "d.md").write_text(TEXT.format("d"))
            call_command("add_documents", self.agent.slug, other, stdout=io.StringIO())
            self.add("--prune", "--yes")
        assert self.names() == {"a.md", "b.md", "c.md", "d.md", "envoyé.md"}

    def test_upload_of_another_content_is_no_longer_of_the_folder(self) -> None:
        self.add()
        document = store_document(agent=self.agent, name="b.md", data=b"# Neuf\n").document
        assert (document.folder, document.loaded_size, document.loaded_mtime) == ("", None, None)
        index_documents(agent=self.agent, documents=[document])
        assert self.add()["unchanged"] == 2
        store_document(agent=self.agent, name="b.md", data=b"# Neuf\n")
        (self.folder / "b.md").unlink()
        self.add("--prune", "--yes")
        assert "b.md" in self.names()

    def test_nothing_is_removed_before_what_is_new_is_stored(self) -> None:
        self.add()
        (self.folder / "b.md").rename(self.folder / "d.md")
        away = mock.patch("knowledge.indexing.path.receive_file", side_effect=OperationalError("locked"))
        with away, pytest.raises(CommandError):
            self.add("--prune", "--yes")
        assert self.names() == {"a.md", "b.md", "c.md"}

    def test_folder_inside_that_cannot_be_read_is_told_and_nothing_is_removed(self) -> None:
        inner = self.folder / "inner"
        inner.mkdir()
        self.write("inner/e.md", TEXT.format("e"))
        self.add()
        (self.folder / "b.md").unlink()
        whole = os.scandir

        def refusing(path: Any) -> Any:
            if Path(path) == inner:
                raise PermissionError(errno.EACCES, "Permission denied", str(inner))
            return whole(path)

        with mock.patch("os.scandir", refusing):
            told = self.add()
            assert [row["item"] for row in told["failed"]] == [str(inner)]
            assert "gone_files" not in told
            with pytest.raises(CommandError, match="Nothing was removed"):
                self.add("--prune", "--yes")
        assert {"b.md", "inner/e.md"} <= self.names()

    def test_empty_folder_removes_nothing(self) -> None:
        self.add()
        for path in self.folder.iterdir():
            path.unlink()
        self.add("--prune", "--yes")
        assert len(self.names()) == 3

    def test_images_and_styles_are_one_line_for_people_and_each_named_for_programs(self) -> None:
        for name in ("x.png", "y.png", "z.css"):
            (self.folder / name).write_bytes(b"x")
        told = self.told()
        assert "skipped: 3 files that are no documents (2 .png, 1 .css)" in told
        assert len(told.splitlines()) == 2
        assert [row["item"] for row in self.add()["skipped"]] == ["x.png", "y.png", "z.css"]

    def test_chunks_are_said_to_wait_for_questions_only_where_a_model_writes_them(self) -> None:
        assert "answer by their text" not in self.told()
        with mock.patch.object(questions, "language_model", return_value=ScriptedLLM()):
            told = self.told()
            assert "3 chunks answer by their text" in told
            assert self.add()["questions_waiting"] == 3
            out = io.StringIO()
            call_command("rebuild_agent_index", self.agent.slug, stdout=out)
            assert "3 chunks answer by their text" in out.getvalue()
        job = IndexBuild.objects.get(kind=JobKind.QUESTIONS)
        assert job.status == JobStatus.QUEUED
