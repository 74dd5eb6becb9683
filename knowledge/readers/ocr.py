"""Lines of pages that are pictures, recognised by Tesseract where it is installed, with their place.

A page is drawn in grey (PDFium, in this process, which is the isolated reader) and handed to `tesseract` through a
pipe: no file is written. Bounds: pixels of a page, seconds of a page, seconds of a document. A page that fails or comes
too late is left out and named by the caller; nothing here raises for a page.
"""

import io
import logging
import math
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pypdfium2
from django.conf import settings

from knowledge.readers.base import PlacedLine
from knowledge.readers.drawing import page_image

#: A scanned page, drawn for Tesseract, and how long Tesseract may take for it.
OCR_PAGE_PIXELS = 20_000_000
OCR_PAGE_SECONDS = 60.0

logger = logging.getLogger(__name__)

#: What Tesseract is made for.
_DOTS_PER_INCH = 300
#: Of its table: how many columns, and the level of a row that is a word.
_COLUMNS = 12
_WORD = "5"


@dataclass(slots=True)
class Recognised:
    """Lines by page number; `late` are the pages for which no time was left."""

    lines: dict[int, list[PlacedLine]] = field(default_factory=dict)
    late: list[int] = field(default_factory=list)


def recognise_pages(document: Any, numbers: Sequence[int]) -> Recognised:
    """The lines of these pages (counted from 1) of a PDF that PDFium has opened."""
    found = Recognised()
    deadline = time.monotonic() + settings.OCR_DOCUMENT_SECONDS
    for number in numbers:
        left = deadline - time.monotonic()
        if left <= 0:
            found.late.append(number)
            continue
        try:
            picture, width, height = _picture(document, number)
        except (pypdfium2.PdfiumError, ValueError, ArithmeticError) as error:
            logger.warning("A page cannot be drawn: %s.", type(error).__name__)
            continue
        seconds = min(OCR_PAGE_SECONDS, left)
        table = _read(picture, seconds=seconds)
        if lines := list(_lines(table, number, width, height)):
            found.lines[number] = lines
    return found


def _lines(table: str, page: int, width: int, height: int) -> Iterator[PlacedLine]:
    """Lines out of Tesseract's table of words: a block, a paragraph, a line and a word number, then a box in pixels."""
    lines: dict[tuple[str, ...], list[tuple[str, list[int]]]] = {}
    for row in table.splitlines():
        cells = row.split("\t")
        if len(cells) == _COLUMNS and cells[0] == _WORD and cells[-1].strip():
            try:
                left, top, wide, high = map(int, cells[6:10])
            except ValueError:
                continue
            box = [left, top, left + wide, top + high]
            lines.setdefault(tuple(cells[1:5]), []).append((cells[-1].strip(), box))
    for words in lines.values():
        x0, y0 = (min(box[side] for _word, box in words) for side in (0, 1))
        x1, y1 = (max(box[side] for _word, box in words) for side in (2, 3))
        text = " ".join(word for word, _box in words)
        yield PlacedLine(text, page, (x0 / width, y0 / height, x1 / width, y1 / height))


def command() -> str:
    """Where Tesseract is; empty where it is not installed."""
    return (shutil.which(settings.OCR_COMMAND) or "") if settings.OCR_COMMAND else ""


def _picture(document: Any, number: int) -> tuple[bytes, int, int]:
    """A page in grey as Tesseract reads it, with its width and height in pixels."""
    image = page_image(document, number, pixels=OCR_PAGE_PIXELS, dots=_DOTS_PER_INCH, grayscale=True)
    picture = io.BytesIO()
    image.save(picture, "PPM")
    return picture.getvalue(), *image.size


def _read(picture: bytes, *, seconds: float) -> str:
    """What Tesseract reads, as its table; empty where it fails or takes too long."""
    languages = "+".join(settings.OCR_LANGUAGES)
    limit = math.ceil(seconds) + 1
    try:
        done = subprocess.run(  # noqa: S603  # the operator's command, no argument of a user
            [command(), "stdin", "stdout", "-l", languages, "--dpi", str(_DOTS_PER_INCH), "tsv"],
            input=picture,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
            timeout=seconds,
            check=True,
            # It must not outlive a reader that is killed.
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("Tesseract read nothing: %s.", type(error).__name__)
        return ""
    return done.stdout.decode(errors="replace")
