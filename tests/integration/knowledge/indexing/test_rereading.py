"""Documents that an older reader read: found, read again without touching what is
the same.
"""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from django.core.management import call_command
from django.test import TestCase
from fpdf import FPDF

from agents.models import JobKind
from knowledge.indexing import questions
from knowledge.indexing.path import outdated_documents
from knowledge.models import Chunk, Document, IndexBuild, UnitsOrigin
from tests.factories import make_agent
from tests.scripted import ScriptedLLM

PARAGRAPHS = (
    "Le dossier complet est adressé au guichet de la préfecture avant la fin du mois. ",
    "Une attestation provisoire est remise au demandeur le jour même de son dépôt. ",
)


class RereadingTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        pdf = FPDF(unit="pt", format="A4")
        for text in PARAGRAPHS:
            pdf.add_page()
            pdf.set_font("helvetica", size=11)
            pdf.multi_cell(0, 14, text * 12)
        pdf.output(str(self.folder / "guide.pdf"))
        (self.folder / "note.txt").write_text("Une note de texte, sans page.")
        self.add()

    def add(self) -> dict[str, Any]:
        return self.run_command("add_documents", self.agent.slug, str(self.folder))

    def run_command(self, *arguments: str) -> dict[str, Any]:
        out = io.StringIO()
        call_command(*arguments, "--json", stdout=out)
        told: dict[str, Any] = json.loads(out.getvalue())
        return told

    def as_read_by_the_first_release(self) -> list[int]:
        """Its rows as they were: no places, and one text that it read otherwise."""
        Document.objects.update(reader_version=0)
        chunks = list(Chunk.objects.filter(document__name="guide.pdf").order_by("index"))
        Chunk.objects.update(places=None)
        Chunk.objects.filter(pk=chunks[0].pk).update(content="Ledossiercomplet", content_hash="old")
        return [chunk.pk for chunk in chunks]

    def test_passages_of_a_pdf_know_their_page_and_place(self) -> None:
        chunks = Chunk.objects.filter(document__name="guide.pdf").order_by("index")
        assert [chunk.page for chunk in chunks] == [1, 2]
        assert chunks[0].places is not None
        page, left, top, right, bottom = chunks[0].places[0]
        assert page == 1
        assert 0 < left < right <= 1
        assert 0 < top < bottom < 0.5
        assert Chunk.objects.get(document__name="note.txt").page is None

    def test_only_formats_with_a_newer_reader_are_read_again(self) -> None:
        assert outdated_documents() == []
        self.as_read_by_the_first_release()
        assert [document.name for document in outdated_documents(self.agent)] == ["guide.pdf"]
        assert outdated_documents(make_agent(slug="other")) == []

    def test_passage_that_only_stands_under_other_headings_keeps_its_questions(self) -> None:
        self.as_read_by_the_first_release()
        chunk = Chunk.objects.get(document__name="guide.pdf", index=1)
        units = [{"question": "Qui la remet ?", "answer": "Le guichet."}]
        Chunk.objects.filter(pk=chunk.pk).update(
            parent_context="Autre titre",
            content_hash="other",
            knowledge_units=units,
            units_origin=UnitsOrigin.GENERATED,
        )
        self.run_command("reread_documents")
        assert Chunk.objects.get(pk=chunk.pk).knowledge_units == units

    def test_unchanged_passage_keeps_its_row_and_its_vector_and_is_placed(self) -> None:
        _changed, same = self.as_read_by_the_first_release()
        report = self.run_command("reread_documents")
        assert report["embedded"] == 1
        assert Chunk.objects.get(pk=same).page == 2
        assert not Chunk.objects.filter(content="Ledossiercomplet").exists()
        assert outdated_documents() == []

    def test_questions_are_written_for_what_was_read_again_where_a_model_writes_them(self) -> None:
        self.as_read_by_the_first_release()
        with mock.patch.object(questions, "language_model", return_value=ScriptedLLM()):
            self.run_command("reread_documents")
        job = IndexBuild.objects.get(kind=JobKind.QUESTIONS)
        assert job.document_ids == [Document.objects.get(name="guide.pdf").pk]

    def test_adding_the_same_file_again_reads_it_with_the_newer_reader(self) -> None:
        _changed, same = self.as_read_by_the_first_release()
        assert self.add()["embedded"] == 1
        assert Chunk.objects.get(pk=same).page == 2
