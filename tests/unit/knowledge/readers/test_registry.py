"""The entry to the readers: what a file is decides, and every bound is held."""

import pytest
from fpdf import FPDF
from pytest_django.fixtures import Settings

from knowledge.models import SourceType
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal


def small_pdf() -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    pdf.cell(text="Une phrase dans un fichier.")
    return bytes(pdf.output())


@pytest.mark.parametrize(
    ("data", "filename", "reason"),
    [
        (b"", "a.md", "vide"),
        (b"  \n\t ", "a.md", "vide"),
        (b"Bonjour.", "a.pdf", ".pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 50, "a.md", "OCR"),
        (b"Bonjour.", "a.pages", ".docx"),
        (b"# Titre seul\n", "a.md", "aucun texte"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(data: bytes, filename: str, reason: str) -> None:
    assert reason in refusal(data, filename)


def test_what_a_file_is_decides_not_its_name() -> None:
    parsed = parse_document(small_pdf(), filename="notes.txt")
    assert (parsed.source_type, parsed.blocks[0].text) == (SourceType.PDF, "Une phrase dans un fichier.")
    page = parse_document(b"<!DOCTYPE html><html><p>Bonjour.</p></html>", filename="a.txt")
    assert page.source_type == SourceType.HTML


@pytest.mark.parametrize(
    ("bound", "reason"), [("MAX_DOCUMENT_BYTES", "trop gros"), ("MAX_DOCUMENT_CHARACTERS", "trop long")]
)
def test_bytes_and_characters_are_bounded(bound: str, reason: str, settings: Settings) -> None:
    setattr(settings, bound, 5)
    assert reason in refusal(b"Bonjour.", "a.txt")
