"""`add_documents FOLDER` a second time: what is unchanged is not read again."""

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from django.test import TestCase

from agents.models import JobKind, JobStatus
from knowledge.indexing import questions
from knowledge.models import IndexBuild
from tests.factories import make_agent
from tests.scripted import ScriptedLLM
from tests.terminal import run

TEXT = "# {0}\n\n## Partie\n\n" + "La carte {0} coûte 12 euros au guichet de la mairie. " * 6


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

    def test_changed_file_is_read_again(self) -> None:
        self.add()
        self.write("a.md", TEXT.format("a").replace("12", "15"))
        told = self.add()
        assert (told["unchanged"], told["embedded"]) == (2, 1)

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
