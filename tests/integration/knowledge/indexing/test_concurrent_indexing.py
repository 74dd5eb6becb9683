"""Several workers on one document at once, and documents that go or change while they are read."""

import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from django.core.files.base import ContentFile
from django.test import TestCase, TransactionTestCase

from agents.models import IndexingMethod, JobStatus
from knowledge.indexing import chunks, points
from knowledge.indexing.jobs import enqueue_documents, run_build
from knowledge.indexing.path import index_documents, store_document
from knowledge.indexing.points import PointWriter, stale_documents
from knowledge.isolation import Reader
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.vectors.base import collection_alias, vector_store
from tests.factories import FAQ_TEXT, make_agent
from tests.waiting import in_threads

QA = IndexingMethod.QA_ATOMIC


class TwoWorkersTests(TransactionTestCase):
    def setUp(self) -> None:
        self.agent = make_agent()

    def tearDown(self) -> None:
        for info in vector_store().collections():
            vector_store().drop(info.name)

    def test_two_indexings_of_a_document_leave_each_chunk_once(self) -> None:
        document = store_document(agent=self.agent, name="f.md", data=FAQ_TEXT.encode()).document
        real = chunks._categories

        def slow(*arguments: Any) -> Any:
            time.sleep(0.2)
            return real(*arguments)

        with mock.patch.object(chunks, "_categories", slow):
            in_threads(
                *[lambda: index_documents(agent=self.agent, documents=[Document.objects.get(pk=document.pk)])] * 2
            )
        assert document.chunks.count() == 3
        assert vector_store().count(collection_alias(self.agent.slug, QA)) == 5

    def test_two_uploads_of_a_name_are_one_document(self) -> None:
        def slow(data: bytes) -> ContentFile[bytes]:
            time.sleep(0.2)
            return ContentFile(data)

        with mock.patch("knowledge.indexing.path.ContentFile", slow):
            in_threads(*[lambda: store_document(agent=self.agent, name="f.md", data=FAQ_TEXT.encode())] * 2)
        assert self.agent.documents.count() == 1
        with self.agent.documents.get().file.open("rb") as file:
            assert file.read() == FAQ_TEXT.encode()


class OvertakenTests(TestCase):
    """What another process does between two steps of an indexing is played at that step."""

    def setUp(self) -> None:
        self.agent = make_agent()
        self.alias = collection_alias(self.agent.slug, QA)
        self.documents = [self.store(name) for name in ("a.md", "b.md")]

    def store(self, name: str, text: str = FAQ_TEXT) -> Document:
        return store_document(agent=self.agent, name=name, data=text.encode()).document

    def run_with(self, step: str, act: Callable[[Document], object], owner: Any = None) -> Any:
        """A build of both documents; `act` happens once, just before `step`."""
        owner = owner or Reader
        real = getattr(owner, step)
        done: list[bool] = []

        def played(*arguments: Any, **options: Any) -> Any:
            if not done:
                done.append(True)
                act(Document.objects.get(name="a.md"))
            return real(*arguments, **options)

        build = enqueue_documents(agent=self.agent, document_ids=[d.pk for d in self.documents])
        with mock.patch.object(owner, step, played):
            run_build(build.pk)
        assert done
        build.refresh_from_db()
        return build

    def test_document_deleted_while_it_is_read_stops_no_other(self) -> None:
        build = self.run_with("read", lambda document: document.delete())
        assert (build.status, build.report["documents"]) == (JobStatus.DONE, 1)
        assert [row["item"] for row in build.report["skipped"]] == ["a.md"]
        assert Document.objects.get(name="b.md").status == DocumentStatus.INDEXED

    def test_document_deleted_while_its_points_are_written_leaves_none(self) -> None:
        build = self.run_with("write", lambda document: document.delete(), owner=PointWriter)
        assert (build.status, build.report["documents"]) == (JobStatus.DONE, 1)
        assert vector_store().count(self.alias) == 5

    def test_content_replaced_while_the_old_one_is_read_is_not_undone(self) -> None:
        new = "# Autre\n\n## Où est la mairie ?\n\nPlace du Marché.\n"

        def replace(_document: Document) -> None:
            index_documents(agent=self.agent, documents=[self.store("a.md", new)])

        self.run_with("read", replace)
        kept = Document.objects.get(name="a.md")
        assert (kept.chunks.count(), kept.status) == (1, DocumentStatus.INDEXED)

    def test_edit_made_while_the_points_are_written_is_not_overwritten(self) -> None:
        index_documents(agent=self.agent, documents=self.documents)

        def edit(document: Document) -> None:
            document.chunks.filter(content__contains="trois semaines").update(content="Autre.")
            points.write_documents(agent=self.agent, documents=[document], report=mock.MagicMock())

        self.run_with("write", edit, owner=PointWriter)
        stored = [point.payload["display_text"] for batch in vector_store().scroll(self.alias) for point in batch]
        chunk = Chunk.objects.get(content="Autre.")
        assert sum("Autre." in str(text) for text in stored) == 1, chunk
        assert stale_documents(self.agent) == []

    def test_documents_indexed_again_unchanged_ask_for_no_other_update(self) -> None:
        index_documents(agent=self.agent, documents=self.documents)
        with self.captureOnCommitCallbacks(execute=True):
            index_documents(agent=self.agent, documents=list(self.agent.documents.all()))
        assert not self.agent.jobs.exists()
