"""Small Office files, and how tests break them."""

import io
import zipfile
from typing import Any

import docx
import openpyxl
import pptx
import pytest

from knowledge.errors import UnreadableDocumentError
from knowledge.readers.registry import parse_document


def saved(file: Any) -> bytes:
    buffer = io.BytesIO()
    file.save(buffer)
    return buffer.getvalue()


def refusal(data: bytes, filename: str) -> str:
    with pytest.raises(UnreadableDocumentError) as caught:
        parse_document(data, filename=filename)
    return str(caught.value.public_message)


def rewritten(data: bytes, name: str, content: bytes) -> bytes:
    """An archive with one part replaced or added."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", 8) as new:
        for entry in old.namelist():
            if entry != name:
                new.writestr(entry, old.read(entry))
        new.writestr(name, content)
    return buffer.getvalue()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Horaires", 1)
    document.add_paragraph("Les bureaux ouvrent :")
    document.add_paragraph("le lundi", style="List Bullet")
    return saved(document)


def excel() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Salle", "Tarif"])
    workbook.active.append(["Petite", 12.5])
    return saved(workbook)


def powerpoint() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Bienvenue", "Rendez-vous à neuf heures."
    return saved(presentation)
