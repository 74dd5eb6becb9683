"""Archives of Word, Excel and PowerPoint: which are refused before they are opened, and their strict form."""

import re
from collections.abc import Callable

import docx
import openpyxl
import pptx
import pytest
from pytest_django.fixtures import Settings

from knowledge.models import SourceType
from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import (
    excel,
    powerpoint,
    refusal,
    rewritten,
    saved,
    unzipped,
    word,
    zipped,
)

_TRANSITIONAL = re.compile(
    rb"http://schemas\.openxmlformats\.org/(officeDocument|wordprocessingml|spreadsheetml|presentationml|drawingml)/2006/"
)
MAIN_PARTS = {
    "a.docx": (word, "word/document.xml"),
    "a.xlsx": (excel, "xl/worksheets/sheet1.xml"),
    "a.pptx": (powerpoint, "ppt/slides/slide1.xml"),
}
EACH = pytest.mark.parametrize("name", list(MAIN_PARTS))
ENTITIES = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb">]><a>&b;</a>'


def broken(name: str, content: bytes, part: str = "") -> str:
    """Why a file is refused with this in its main part, or in another."""
    made, main = MAIN_PARTS[name]
    return refusal(rewritten(made(), part or main, content), name)


@EACH
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_truncated_file_is_refused(name: str, share: float) -> None:
    data = MAIN_PARTS[name][0]()
    assert "tronqué" in refusal(data[: int(len(data) * share)], name)


@EACH
@pytest.mark.parametrize(
    ("content", "part", "reason"),
    [
        (b"<w:document>", "", "abîmé"),
        (ENTITIES, "", "entités"),
        (b" " * 60_000_000, "", "bombe"),
        (b"\0" * 60_000_000, "media/a.bin", "bombe"),
    ],
)
def test_malformed_part_entities_and_bombs_are_refused(name: str, content: bytes, part: str, reason: str) -> None:
    assert reason in broken(name, content, part)


def test_size_unpacked_is_bounded(settings: Settings) -> None:
    settings.MAX_UNPACKED_BYTES = 1_000_000
    assert "bombe" in broken("a.docx", b"\0" * 2_000_000, "word/media/x.bin")


def test_malformed_list_of_slides_is_refused() -> None:
    assert "abîmé" in broken("a.pptx", b"<p:sld>", "ppt/presentation.xml")


@EACH
def test_file_that_is_not_what_its_name_says_is_refused(name: str) -> None:
    assert "sans mot de passe" in refusal(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, name)
    assert name.removeprefix("a") in refusal(b"Bonjour.", name)
    assert "Word" in refusal(zipped({"content.xml": "<a/>"}), name)


def test_office_file_named_otherwise_is_read_as_what_it_is() -> None:
    assert parse_document(excel(), filename="tarifs.docx").source_type == SourceType.XLSX


@pytest.mark.parametrize(
    ("made", "name"), [(docx.Document, "a.docx"), (openpyxl.Workbook, "a.xlsx"), (pptx.Presentation, "a.pptx")]
)
def test_file_without_text_is_refused(made: Callable[[], object], name: str) -> None:
    assert "aucun texte" in refusal(saved(made()), name)


def strict(data: bytes) -> bytes:
    parts = unzipped(data).items()
    return zipped({name: _TRANSITIONAL.sub(rb"http://purl.oclc.org/ooxml/\1/", part) for name, part in parts})


@EACH
def test_strict_file_is_read_like_the_usual_one(name: str) -> None:
    usual = MAIN_PARTS[name][0]()
    renamed = strict(usual)
    assert b"purl.oclc.org" in unzipped(renamed)["_rels/.rels"]
    expected, found = (parse_document(data, filename=name) for data in (usual, renamed))
    assert expected.blocks
    assert (found.title, found.blocks) == (expected.title, expected.blocks)
