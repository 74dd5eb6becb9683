"""Office files in their strict form, as Word and Excel save on demand, read like the usual ones."""

import io
import re
import zipfile
from collections.abc import Callable

import docx
import openpyxl
import pptx
import pytest

from knowledge.readers.office import as_transitional
from knowledge.readers.registry import parse_document

_TRANSITIONAL = re.compile(
    rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml|spreadsheetml|presentationml|drawingml)/2006/"
)


def strict(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", 8) as new:
        for entry in old.namelist():
            new.writestr(entry, _TRANSITIONAL.sub(rb"http://purl.oclc.org/ooxml/\1/", old.read(entry)))
    return buffer.getvalue()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Horaires", 1)
    document.add_paragraph("Les bureaux ouvrent :")
    document.add_paragraph("le lundi", style="List Bullet")
    return _saved(document.save)


def excel() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(["Salle", "Tarif"])
    workbook.active.append(["Petite", 12.5])
    return _saved(workbook.save)


def powerpoint() -> bytes:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Bienvenue", "Rendez-vous à neuf heures."
    return _saved(presentation.save)


def _saved(save: Callable[[io.BytesIO], None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(("made", "name"), [(word, "a.docx"), (excel, "a.xlsx"), (powerpoint, "a.pptx")])
def test_strict_file_is_read_like_the_usual_one(made: Callable[[], bytes], name: str) -> None:
    usual = made()
    renamed = strict(usual)
    assert b"purl.oclc.org" in zipfile.ZipFile(io.BytesIO(renamed)).read("_rels/.rels")
    expected, found = (parse_document(data, filename=name) for data in (usual, renamed))
    assert expected.blocks
    assert (found.title, found.blocks) == (expected.title, expected.blocks)


def test_usual_file_is_left_as_it_is() -> None:
    usual = word()
    assert as_transitional(usual) is usual
