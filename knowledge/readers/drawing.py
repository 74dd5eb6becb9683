"""Pages of a PDF as pictures, drawn in a child process of their own with limits of time, memory and pixels, as files
are read.

The child loads PDFium alone (no Django), so that a page takes a fraction of a second: `python -m
knowledge.readers.drawing BYTES SECONDS PAGE PIXELS`, the file on standard input, a PNG on standard output.
"""

import math
import subprocess
import sys
from typing import Any

_MODULE = "knowledge.readers.drawing"
_UNITS_PER_INCH = 72
#: Sharper than a screen shows it costs without being seen.
_MOST_DOTS_PER_INCH = 150
#: Beyond its own seconds, for a process that must be ended.
_GRACE_SECONDS = 5.0


class UndrawablePageError(Exception):
    """The child could not draw it within its limits."""


def draw_page(data: bytes, page: int, *, pixels: int, seconds: float, memory: int, folder: str) -> bytes:
    """A page (from 1) of a PDF as PNG of at most so many pixels; `memory` in bytes, `folder` is where the project is."""
    limits = (str(memory), str(math.ceil(seconds)), str(page), str(pixels))
    try:
        done = subprocess.run(  # noqa: S603  # fixed command
            [sys.executable, "-m", _MODULE, *limits],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            timeout=seconds + _GRACE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UndrawablePageError(type(error).__name__) from error
    return done.stdout


def page_image(document: Any, number: int, *, pixels: int, dots: int, grayscale: bool = False) -> Any:
    """A page (from 1) of an opened PDF in so many dots an inch, fewer where it would have more pixels."""
    page = document[number - 1]
    width, height = page.get_size()
    # A page may claim any size; each side is rounded up.
    most = 0.995 * math.sqrt(pixels / (width * height))
    return page.render(scale=min(dots / _UNITS_PER_INCH, most), grayscale=grayscale).to_pil()


def main() -> None:
    import resource

    import pypdfium2

    memory, seconds, page, pixels = map(int, sys.argv[1:5])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    document = pypdfium2.PdfDocument(sys.stdin.buffer.read())
    page_image(document, page, pixels=pixels, dots=_MOST_DOTS_PER_INCH).save(sys.stdout.buffer, "PNG")


if __name__ == "__main__":
    main()
