"""Scanned pages: what Tesseract reads of them comes in at their place. The program is a script of the test."""

import io
import sys
from pathlib import Path

import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw
from pytest_django.fixtures import Settings

from knowledge.readers.registry import parse_document
from tests.unit.knowledge.readers.office_files import refusal

#: Reads a PGM picture and says what it was given, if the picture has something dark.
PROGRAM = """#!{python}
import os, sys, time
kind, size, depth, pixels = sys.stdin.buffer.read().split(b"\\n", 3)
width, height = map(int, size.split())
assert kind == b"P5" and len(pixels) == width * height
open(os.environ["SEEN"], "a").write(f"{{width}}x{{height}} {{sys.argv[sys.argv.index('-l') + 1]}}\\n")
{act}
if min(pixels) < 100:
    print("level\\tpage_num\\tblock_num\\tpar_num\\tline_num\\tword_num\\tleft\\ttop\\twidth\\theight\\tconf\\ttext")
    for number, line in enumerate(["Le congé dure cinq", "semaines par an.", "", "Il se prend d'un", "commun accord."]):
        print(4, 1, 1, 1, number, 0, 0, 0, int(width), int(height), -1, "", sep="\\t")
        for rank, word in enumerate(line.split()):
            print(5, 1, 1, 1, number, rank, 200 + 300 * rank, 300 + 60 * number, 290, 50, 91.5, word, sep="\\t")
"""


@pytest.fixture
def seen(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    install(tmp_path, settings)
    return tmp_path / "seen"


def install(folder: Path, settings: Settings, *, act: str = "") -> None:
    program = folder / "tesseract"
    program.write_text(PROGRAM.format(python=sys.executable, act=act))
    program.chmod(0o755)
    settings.OCR_COMMAND = str(program)


def scan(*pages: str) -> bytes:
    """A page a word: `text`, `picture` or `blank`."""
    pdf = FPDF()
    for page in pages:
        pdf.add_page()
        if page == "text":
            pdf.set_font("helvetica", size=11)
            pdf.cell(text="Une phrase écrite en toutes lettres.")
        elif page == "picture":
            image = Image.new("RGB", (400, 100), "white")
            ImageDraw.Draw(image).rectangle((50, 30, 300, 60), fill="black")
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            pdf.image(buffer, w=100)
    return bytes(pdf.output())


def test_scan_is_read_as_paragraphs_with_their_page(seen: Path) -> None:
    parsed = parse_document(scan("picture", "picture"), filename="scan.pdf")
    paragraphs = ["Le congé dure cinq semaines par an.", "Il se prend d'un commun accord."]
    assert [block.text for block in parsed.blocks] == paragraphs * 2
    assert [block.page for block in parsed.blocks] == [1, 1, 2, 2]
    assert "page(s) 1, 2" in parsed.notices[0]
    assert "OCR" in parsed.notices[0]


def test_page_is_drawn_at_the_resolution_tesseract_wants(seen: Path) -> None:
    parse_document(scan("picture"), filename="scan.pdf")
    size, languages = seen.read_text().split()
    width, height = map(int, size.split("x"))
    assert (abs(width - 2480) < 3, abs(height - 3508) < 3, languages) == (True, True, "fra+eng")


def test_only_pages_without_text_are_recognised_and_stay_in_their_place(seen: Path) -> None:
    parsed = parse_document(scan("text", "picture", "text", "blank"), filename="scan.pdf")
    assert len(seen.read_text().splitlines()) == 2
    assert [block.page for block in parsed.blocks] == [1, 2, 2, 3]
    assert ["page(s) 2" in parsed.notices[0], "page(s) 4" in parsed.notices[1]] == [True, True]


def test_document_with_text_needs_no_program(settings: Settings, tmp_path: Path) -> None:
    install(tmp_path, settings, act="sys.exit(1)")
    assert not parse_document(scan("text"), filename="scan.pdf").notices


def test_pixels_are_bounded(seen: Path, settings: Settings) -> None:
    settings.OCR_PAGE_PIXELS = 10_000
    parse_document(scan("picture"), filename="scan.pdf")
    width, height = map(int, seen.read_text().split()[0].split("x"))
    assert width * height < 11_000


def test_without_the_program_the_refusal_says_what_to_install(settings: Settings) -> None:
    settings.OCR_COMMAND = "a-program-that-is-not-here"
    assert "tesseract-ocr-fra" in refusal(scan("picture"), "scan.pdf")


def test_scan_is_refused_in_which_nothing_is_found_or_the_program_fails(
    seen: Path, settings: Settings, tmp_path: Path
) -> None:
    assert "rien trouvé" in refusal(scan("blank"), "scan.pdf")
    install(tmp_path, settings, act="sys.exit(3)")
    assert "rien trouvé" in refusal(scan("picture"), "scan.pdf")


def test_page_that_takes_too_long_is_left_out(seen: Path, settings: Settings, tmp_path: Path) -> None:
    install(tmp_path, settings, act="time.sleep(3600)")  # nobody waits for that
    settings.OCR_PAGE_SECONDS = 0.5
    parsed = parse_document(scan("text", "picture"), filename="scan.pdf")
    assert "page(s) 2" in parsed.notices[0]


def test_pages_for_which_no_time_is_left_are_named(seen: Path, settings: Settings, tmp_path: Path) -> None:
    install(tmp_path, settings, act="time.sleep(0.6)")
    settings.OCR_DOCUMENT_SECONDS = 0.5
    parsed = parse_document(scan("text", "picture", "picture", "picture"), filename="scan.pdf")
    assert "page(s) 3, 4" in parsed.notices[-1]
    assert "trop de temps" in parsed.notices[-1]
