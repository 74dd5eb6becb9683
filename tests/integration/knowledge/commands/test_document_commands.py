"""`add_documents` and `rebuild_agent_index` with what operators really give them: same names, huge files, a full disk."""

import errno
import os
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError
from django.db import OperationalError, ProgrammingError
from django.test import TestCase, override_settings

from agents.models import JobKind, JobStatus
from knowledge.indexing import questions
from knowledge.management.terminal import errors_to_terminal
from knowledge.models import Document, IndexBuild
from tests.factories import FAQ_TEXT, make_agent
from tests.scripted import ScriptedLLM
from tests.terminal import run

TEXT = "# {0}\n\n## Partie\n\n" + "La carte {0} coûte 12 euros au guichet de la mairie. " * 6


class AddDocumentsTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        for name in ("a", "b"):
            self.write(f"{name}/readme.md", f"# {name}\n\n## Qui est {name} ?\n\nUne lettre.\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def names(self) -> set[str]:
        return set(self.agent.documents.values_list("name", flat=True))

    def test_two_files_of_one_name_are_both_kept_under_their_paths(self) -> None:
        paths = [self.folder / "a/readme.md", self.folder / "b/readme.md"]
        assert run("add_documents", self.agent.slug, *paths)["documents"] == 2
        assert self.names() == {str(path) for path in paths}
        assert run("add_documents", self.agent.slug, *reversed(paths))["embedded"] == 0
        run("add_documents", make_agent(slug="other").slug, self.folder / "a", self.folder / "b")
        assert Document.objects.count() == 2 + 2

    def test_name_that_is_not_utf8_is_kept_with_a_mark(self) -> None:
        path = os.fsencode(self.folder) + b"/caf\xe9.md"
        with open(path, "wb") as file:
            file.write(FAQ_TEXT.encode())
        for _time in range(2):
            assert run("add_documents", self.agent.slug, self.folder)["documents"] == 3
        assert self.names() == {"a/readme.md", "b/readme.md", "caf\ufffd.md"}

    def test_path_that_is_too_long_for_a_name_is_reported(self) -> None:
        long = self.folder / ("d" * 200) / ("e" * 200) / ("f" * 150)
        long.mkdir(parents=True)
        (long / "1.md").write_text(FAQ_TEXT)
        report = run("add_documents", self.agent.slug, self.folder)
        assert report["documents"] == 2
        assert [row["item"][-4:] for row in report["failed"]] == ["1.md"]

    @override_settings(MAX_DOCUMENT_BYTES=500)
    def test_file_that_is_too_big_is_neither_read_nor_kept(self) -> None:
        self.write("a/big.md", "x" * 501)
        with mock.patch.object(Path, "read_bytes", autospec=True) as read:
            read.side_effect = lambda path: path.open("rb").read()
            report = run("add_documents", self.agent.slug, self.folder)
        assert "big.md" not in {call.args[0].name for call in read.call_args_list}
        assert [row["item"] for row in report["failed"]] == ["a/big.md"]
        assert "500" in report["failed"][0]["reason"]
        assert self.names() == {"a/readme.md", "b/readme.md"}

    def test_full_disk_is_told_for_each_file_and_the_rest_is_done(self) -> None:
        real = FileSystemStorage.save

        def full(storage: FileSystemStorage, name: str, content: Any, max_length: int) -> str:
            if b"# a" in content.read():
                raise OSError(errno.ENOSPC, "No space left on device")
            content.seek(0)
            return real(storage, name, content, max_length)

        with mock.patch.object(FileSystemStorage, "save", full):
            report = run("add_documents", self.agent.slug, self.folder)
        assert [row["item"] for row in report["failed"]] == ["a/readme.md"]
        assert "space" in report["failed"][0]["reason"]
        assert report["documents"] == 1
        assert self.names() == {"b/readme.md"}


class FolderAgainTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        for name in "abc":
            self.write(f"{name}.md", TEXT.format(name))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def add(self) -> dict[str, Any]:
        told: dict[str, Any] = run("add_documents", self.agent.slug, self.folder)
        return told

    def test_unchanged_files_are_not_read_again_and_count_as_they_are(self) -> None:
        first = self.add()
        second = self.add()
        assert (second["embedded"], second["unchanged"]) == (0, 3)
        same = ("documents", "chunks", "points", "waiting")
        assert [second[key] for key in same] == [first[key] for key in same]
        assert second["reused"] == first["points"]

    def test_folder_inside_that_cannot_be_read_is_told(self) -> None:
        inner = self.folder / "inner"
        inner.mkdir()
        self.write("inner/e.md", TEXT.format("e"))
        self.write("z.css", "x")
        assert [row["item"] for row in self.add()["skipped"]] == ["z.css"]
        whole = os.scandir

        def refusing(path: Any) -> Any:
            if Path(path) == inner:
                raise PermissionError(errno.EACCES, "Permission denied", str(inner))
            return whole(path)

        with mock.patch("os.scandir", refusing):
            told = self.add()
        assert [row["item"] for row in told["failed"]] == [str(inner)]

    def test_documents_that_wait_for_questions_are_queued_again_although_unchanged(self) -> None:
        self.add()
        assert not IndexBuild.objects.filter(kind=JobKind.QUESTIONS).exists()
        with mock.patch.object(questions, "language_model", return_value=ScriptedLLM()):
            assert self.add()["unchanged"] == 3
        job = IndexBuild.objects.get(kind=JobKind.QUESTIONS)
        assert (job.status, job.total) == (JobStatus.QUEUED, 3)


class DatabaseErrorTests(TestCase):
    def test_database_that_is_not_migrated_says_what_to_run_and_other_trouble_is_a_message(self) -> None:
        for error in (OperationalError("no such table: agents_agent"), ProgrammingError("x")):
            with pytest.raises(CommandError, match="manage.py migrate"), errors_to_terminal():
                raise error
        with pytest.raises(CommandError, match="disk is full"), errors_to_terminal():
            raise OperationalError("database or disk is full") from sqlite3.OperationalError()
