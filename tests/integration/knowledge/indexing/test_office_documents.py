"""Spreadsheets and slides through `add_documents`, read in the child process as they are in production."""

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import openpyxl
from django.core.management import call_command
from django.test import TestCase, override_settings

from knowledge.models import Chunk, SourceType, UnitsOrigin
from tests.factories import make_agent


@override_settings(PARSE_ISOLATED=True)
class OfficeDocumentTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    def add(self) -> dict[str, Any]:
        out = io.StringIO()
        call_command("add_documents", self.agent.slug, str(self.folder), "--json", stdout=out)
        report: dict[str, Any] = json.loads(out.getvalue())
        return report

    def test_spreadsheet_gives_questions_and_tables_and_a_bad_one_fails_alone(self) -> None:
        workbook = openpyxl.Workbook()
        workbook.active.append(["question", "réponse"])
        workbook.active.append(["Combien coûte la carte ?", "12 euros."])
        tariffs = workbook.create_sheet("Tarifs")
        for row in (["Carte", "Prix"], ["Adulte", 12]):
            tariffs.append(row)
        workbook.save(self.folder / "tarifs.xlsx")
        whole = (self.folder / "tarifs.xlsx").read_bytes()
        (self.folder / "abîmé.xlsx").write_bytes(whole[: len(whole) // 2])
        report = self.add()
        assert report["documents"] == 1
        assert [row["item"] for row in report["failed"]] == ["abîmé.xlsx"]
        document = self.agent.documents.get(name="tarifs.xlsx")
        assert document.source_type == SourceType.XLSX
        chunks = Chunk.objects.filter(document=document)
        assert chunks.get(units_origin=UnitsOrigin.FOUND).knowledge_units == [
            {"question": "Combien coûte la carte ?", "answer": "12 euros."}
        ]
        assert chunks.get(parent_context="Tarifs").content.startswith("| Carte | Prix |")
