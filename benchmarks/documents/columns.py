"""Count whether the columns of a PDF's pages are read one after the other: neighbouring lines that our text tears
apart.

    python -m benchmarks.documents.columns FOLDER

The order is told by what stands where: of two lines of one column (as `pdftotext -bbox-layout` places them, by boxes
alone) the upper comes first, and every line of the left column before every line of the right. Lines over both columns
part a page into bands.
"""

import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import django

from benchmarks.documents.pdf import SETS, _folded, _read

_X = "{http://www.w3.org/1999/xhtml}"
#: A line that is said elsewhere as well, or of fewer letters, says nothing of order.
_LEAST_LETTERS = 20
#: Shares of a page: heads and feet stand beyond these; a line that reaches so far over the middle stands over both
#: columns.
_TOP, _BOTTOM, _OVER = 0.07, 0.93, 0.06


def ordered_lines(path: Path) -> Iterator[list[str]]:
    """The lines of each page in the order of their boxes."""
    command = ["pdftotext", "-bbox-layout", str(path), "-"]
    found = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603  # fixed command
    text = found.decode(errors="replace").translate(dict.fromkeys([*range(9), 11, *range(14, 32)]))
    for page in ElementTree.fromstring(text).iter(f"{_X}page"):  # noqa: S314  # files chosen by hand
        width, height = float(page.get("width", 1)), float(page.get("height", 1))
        band, placed = 0, []
        lines = []
        for line in page.iter(f"{_X}line"):
            x0, y0, x1, y1 = (float(line.get(k, 0)) for k in ("xMin", "yMin", "xMax", "yMax"))
            if not _TOP < y0 / height or not y1 / height < _BOTTOM:
                continue
            said = " ".join(w.text or "" for w in line.iter(f"{_X}word"))
            lines.append((y0, x0 / width, x1 / width, _folded(unicodedata.normalize("NFKC", said))))
        for y0, x0, x1, said in sorted(lines):
            over = x0 < 0.5 - _OVER and x1 > 0.5 + _OVER
            band += over
            placed.append((band, 0 if over else 1 + (x0 >= 0.5 - _OVER), y0, said))
            band += over
        yield [line[-1] for line in sorted(placed)]


def torn_apart(path: Path, ours: str) -> tuple[int, int]:
    """Of neighbouring lines that our text has, those that do not follow each other in it; and all."""
    torn = pairs = 0
    for lines in ordered_lines(path):
        places = [ours.find(line) for line in lines if len(line) >= _LEAST_LETTERS and ours.count(line) == 1]
        follows = dict(pairwise(sorted(places)))
        pairs += max(0, len(places) - 1)
        torn += sum(follows.get(first) != second for first, second in pairwise(places))
    return torn, pairs


def as_drawn(path: Path) -> str:
    """The text row by row over all columns: what a reader that knows no columns gives."""
    command = ["pdftotext", "-layout", str(path), "-"]
    found = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603  # fixed command
    return _folded(found.decode(errors="replace"))


def main() -> None:
    django.setup()
    for pattern, _pages in SETS["two-columns"]:
        for path in sorted(Path(sys.argv[1]).glob(pattern)):
            texts, _chunks, _placed = _read(path.read_bytes(), path.name)
            torn, pairs = torn_apart(path, _folded("".join(texts)))
            worst, all_drawn = torn_apart(path, as_drawn(path))
            print(f"{path.name}\t{torn} of {pairs} (row by row: {worst} of {all_drawn})", flush=True)


if __name__ == "__main__":
    main()
