"""The door of the parsers: what a file is decides, and every bound is held."""

import pytest
from fpdf import FPDF
from pytest_django.fixtures import Settings

from knowledge.errors import UnreadableDocumentError
from knowledge.models import SourceType
from knowledge.readers.registry import SUPPORTED_SUFFIXES, parse_document


def refusal(data: bytes, filename: str) -> str:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse_document(data, filename=filename)
    return str(caught.value.public_message)


def small_pdf() -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica", size=12)
    pdf.cell(text="Une phrase dans un fichier.")
    return bytes(pdf.output())


def test_suffixes_are_lower_case_with_their_dot() -> None:
    assert {".md", ".txt", ".html", ".pdf", ".docx", ".csv"} <= SUPPORTED_SUFFIXES


@pytest.mark.parametrize("data", [b"", b"  \n\t "])
def test_empty_file_is_refused(data: bytes) -> None:
    assert "vide" in refusal(data, "a.md")


def test_pdf_with_another_name_is_read_as_pdf() -> None:
    parsed = parse_document(small_pdf(), filename="notes.txt")
    assert parsed.source_type == SourceType.PDF
    assert parsed.blocks[0].text == "Une phrase dans un fichier."


def test_text_named_pdf_is_refused() -> None:
    assert ".pdf" in refusal(b"Bonjour.", "a.pdf")


def test_page_named_text_is_read_as_html() -> None:
    parsed = parse_document(b"<!DOCTYPE html><html><p>Bonjour.</p></html>", filename="a.txt")
    assert parsed.source_type == SourceType.HTML


def test_picture_is_refused_naming_ocr() -> None:
    assert "OCR" in refusal(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 50, "a.md")


def test_unknown_format_is_refused_naming_those_accepted() -> None:
    assert ".docx" in refusal(b"Bonjour.", "a.odt")


def test_document_without_text_is_refused() -> None:
    assert "aucun texte" in refusal(b"# Titre seul\n", "a.md")


def test_bytes_are_bounded(settings: Settings) -> None:
    settings.MAX_DOCUMENT_BYTES = 5
    assert "trop gros" in refusal(b"Bonjour.", "a.txt")


def test_characters_are_bounded(settings: Settings) -> None:
    settings.MAX_DOCUMENT_CHARACTERS = 5
    assert "trop long" in refusal(b"Bonjour.", "a.txt")
