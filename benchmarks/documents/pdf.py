"""What is read of real PDFs, against `pdftotext` for their words and the same manual in HTML for their tables.

    python -m benchmarks.documents.pdf FOLDER [--set NAME] [--json FILE]

FOLDER holds unpacked packages, one folder each (`x_NAME`, see README.md). Run from another checkout (`PYTHONPATH`) it
measures that one.
"""

import argparse
import json
import re
import subprocess
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_HTML_CELLS = "td th"
_WORD = re.compile(r"[^\W\d_]+")
_SPLIT_ACCENT = re.compile(r"[A-Za-z']\s?[´ˆ¨˜]\s?[A-Za-zı]")
_LEADERS = re.compile(r"(?:\.\s?){5,}")
_ROW = re.compile(r"^\|(.*)\|$", re.M)

#: Name of a set: PDFs, and the HTML pages of each where there are some ({stem} is the PDF's name up to its first dot).
SETS: dict[str, tuple[tuple[str, str], ...]] = {
    "debian-reference": (
        (
            "x_debian-reference-fr/usr/share/debian-reference/*.pdf",
            "x_debian-reference-fr/usr/share/debian-reference/*.html",
        ),
        (
            "x_debian-reference-en/usr/share/debian-reference/*.pdf",
            "x_debian-reference-en/usr/share/debian-reference/*.html",
        ),
    ),
    "installation-guide": tuple(
        (
            f"x_installation-guide-amd64/usr/share/doc/installation-guide-amd64/{code}/*.pdf",
            f"x_installation-guide-amd64/usr/share/doc/installation-guide-amd64/{code}/*.html",
        )
        for code in "ca cs da de en es fr id it nl pt ro sv vi".split()
    ),
    "developers-reference": (
        (
            "x_developers-reference/usr/share/developers-reference/*.pdf",
            "x_developers-reference/usr/share/developers-reference/*.html",
        ),
        (
            "x_developers-reference-fr/usr/share/developers-reference/fr/*.pdf",
            "x_developers-reference-fr/usr/share/developers-reference/fr/*.html",
        ),
    ),
    "debian-policy": (
        (
            "x_debian-policy/usr/share/doc/debian-policy/policy.pdf",
            "x_debian-policy/usr/share/doc/debian-policy/policy.html/*.html",
        ),
        ("x_debian-policy/usr/share/doc/debian-policy/fhs/*.pdf", ""),
    ),
    "maint-guide": (
        (
            "x_maint-guide/usr/share/doc/maint-guide/*.pdf",
            "x_maint-guide/usr/share/doc/maint-guide/html/*.en.html",
        ),
        (
            "x_maint-guide-fr/usr/share/doc/maint-guide-fr/*.pdf",
            "x_maint-guide-fr/usr/share/doc/maint-guide-fr/html/*.fr.html",
        ),
    ),
    "debmake-doc": (
        (
            "x_debmake-doc/usr/share/doc/debmake-doc/*.en.pdf",
            "x_debmake-doc/usr/share/doc/debmake-doc/html/*.en.html",
        ),
        (
            "x_debmake-doc/usr/share/doc/debmake-doc/*.de.pdf",
            "x_debmake-doc/usr/share/doc/debmake-doc/html/*.de.html",
        ),
    ),
    "r-doc": tuple(
        (f"x_r-doc-pdf/usr/share/R/doc/manual/{name}.pdf", "")
        for name in ("R-intro", "R-data", "R-lang", "R-ints", "R-admin", "R-FAQ")
    ),
    "gnuplot": (("x_gnuplot-doc/usr/share/doc/gnuplot/*.pdf", ""),),
    "two-columns": tuple(
        (f"x_texlive-publishers-doc/usr/share/doc/texlive-doc/latex/{name}.pdf", "")
        for name in (
            "acmart/samples/sample-sigconf",
            "acmart/samples/sample-sigplan",
            "revtex4-1/sample/aps/apssamp",
            "revtex4-1/sample/aip/aipsamp",
            "ieeepes/ieeepes_doc",
            "ieeetran/IEEEtran_HOWTO",
        )
    ),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", action="append", default=[], help="only these")
    parser.add_argument("--json", type=Path, help="write one object a file there")
    parser.add_argument("--tables-with-pdfplumber", action="store_true", help="its tables, not ours")
    options = parser.parse_args(arguments)
    results = []
    for name, files in SETS.items():
        if options.set and name not in options.set:
            continue
        for pattern, pages in files:
            for path in sorted(options.folder.glob(pattern)):
                truth = html_tables(options.folder, pages) if pages else []
                found = {"set": name, "file": path.name, **measure(path, truth, options)}
                results.append(found)
                print(_line(found), flush=True)
    for name in dict.fromkeys(result["set"] for result in results):
        print(_line(_sum([r for r in results if r["set"] == name], name)))
    print(_line(_sum(results, "all")))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def measure(path: Path, truth: list[list[list[str]]], options: argparse.Namespace) -> dict[str, Any]:
    data = path.read_bytes()
    plain = _pdftotext(path)
    if options.tables_with_pdfplumber:
        return _foreign(path, truth, plain.count("\f"))
    started = time.process_time()
    texts, chunks, placed = _read(data, path.name)
    seconds = time.process_time() - started
    whole = "\n".join(texts)
    right, cells, tables_whole = _cells_right(truth, _markdown_tables(whole))
    return {
        "pages": plain.count("\f"),
        "seconds": round(seconds, 2),
        "chunks": len(chunks),
        **_words(plain, whole, chunks),
        "accents": len(_SPLIT_ACCENT.findall(whole)),
        "heads": _heads_left(plain, whole),
        "leaders": len(_LEADERS.findall(whole)),
        "cells": cells,
        "right": right,
        "tables": sum(bool(table) for table in truth),
        "whole": tables_whole,
        "placed": placed,
    }


def _read(data: bytes, name: str) -> tuple[list[str], list[str], int]:
    """Texts of blocks with their headings, texts of chunks, and how many of these know where they stand."""
    from knowledge.chunking import affordable_chunks
    from knowledge.readers.registry import parse_document

    parsed = parse_document(data, filename=name)
    texts: list[str] = [parsed.title]
    above: tuple[str, ...] = ()
    for block in parsed.blocks:
        texts += [heading for heading in block.headings if heading not in above]
        above = block.headings
        texts.append(block.text)
    drafts = affordable_chunks(parsed)[0]
    try:
        from knowledge.page_viewer import placed_chunks

        drafts = placed_chunks(drafts, parsed)
    except ImportError:
        pass
    placed = sum(any(place.x1 for place in getattr(draft, "places", ())) for draft in drafts)
    return texts, [draft.content for draft in drafts], placed


def _pdftotext(path: Path) -> str:
    command = ["pdftotext", "-enc", "UTF-8", str(path), "-"]
    found = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603  # fixed command
    return unicodedata.normalize("NFKC", found.decode(errors="replace"))


def _folded(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def _words(plain: str, whole: str, chunks: list[str]) -> dict[str, int]:
    """Words that are two of the reference glued together, chunks with one, and words of the reference that are nowhere."""
    reference = Counter(word.casefold() for word in _WORD.findall(plain))
    ours = {word.casefold() for word in _WORD.findall(unicodedata.normalize("NFKC", whole))}
    glued = {word for word in ours - set(reference) if len(word) >= 8 and _is_glued(word, reference)}
    hit = sum(
        any(word.casefold() in glued for word in _WORD.findall(unicodedata.normalize("NFKC", chunk)))
        for chunk in chunks
    )
    letters = _folded(whole)
    lost = [word for word in reference if len(word) >= 4 and word not in ours and _folded(word) not in letters]
    return {"glued": len(glued), "chunks_glued": hit, "lost": len(lost)}


def _is_glued(word: str, reference: Counter[str]) -> bool:
    """Whether a word is three or more of the reference, or two that are each of four letters or frequent."""
    reachable = {0}
    for end in range(2, len(word) + 1):
        for start in range(max(0, end - 20), end - 1):
            if start in reachable and _is_word(word[start:end], reference):
                reachable.add(end)
                break
    return len(word) in reachable


def _is_word(part: str, reference: Counter[str]) -> bool:
    return reference[part] >= (1 if len(part) >= 4 else 5)


def _heads_left(plain: str, whole: str) -> int:
    """Running heads with their page number that are still in the text, of those that poppler sees at a page's edges."""
    pages = [[line.strip() for line in page.splitlines() if line.strip()] for page in plain.split("\f")]
    edges = [line for page in pages for line in {*page[:2], *page[-2:]} if re.search(r"\d", line)]
    returns = Counter(re.sub(r"\d+", "#", line) for line in edges)
    lines = Counter(_folded(line) for line in re.split(r"\n|(?<=[.:;]) ", whole))
    letters = _folded(whole)
    heads = {
        line
        for line in edges
        if returns[re.sub(r"\d+", "#", line)] >= max(4, 0.2 * len(pages)) and sum(c.isalpha() for c in line) >= 8
    }
    return sum(1 for head in heads if lines[_folded(head)] or _folded(head) in letters)


def html_tables(folder: Path, pattern: str) -> list[list[list[str]]]:
    """The tables of HTML pages: rows of cells, their text folded; those of layout (one column, nested) left out."""
    from lxml import html

    tables = []
    for path in sorted(folder.glob(pattern)):
        tree = html.fromstring(
            path.read_bytes().decode("utf-8", errors="replace").encode(), parser=html.HTMLParser(encoding="utf-8")
        )
        for table in tree.iter("table"):
            if table.xpath(".//table") or table.xpath("ancestor::table"):
                continue
            marks = " ".join([table.get("class", ""), table.get("summary", "")]).lower()
            if re.search(r"nav|footer|header|menu|note|tip|warn|admon|hint|docutils footnote|citation", marks):
                continue
            rows = [
                [_folded(cell.text_content()) for cell in row if isinstance(cell.tag, str)] for row in table.iter("tr")
            ]
            rows = [[cell for cell in row if cell] for row in rows]
            rows = [row for row in rows if len(row) > 1]
            if len(rows) > 1:
                tables.append(rows)
    return tables  # fmt: skip


def _markdown_tables(whole: str) -> list[list[str]]:
    """The rows of all tables, their cells folded."""
    rows = (re.split(r"(?<!\\)\|", match[1]) for match in _ROW.finditer(whole))
    return [[_folded(cell) for cell in row] for row in rows]


def _cells_right(truth: list[list[list[str]]], rows: list[list[str]]) -> tuple[int, int, int]:
    """Cells that are a cell of their own in the row of ours that holds most of their row; all; tables without a miss."""
    by_cell: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        for cell in set(row):
            by_cell.setdefault(cell, []).append(number)
    right = cells = whole = 0
    for table in truth:
        missed = 0
        for row in table:
            votes: Counter[int] = Counter()
            for cell in set(row):
                votes.update(by_cell.get(cell, ()))
            best = rows[votes.most_common(1)[0][0]] if votes else []
            # A cell that stands alone was kept with nothing of its row.
            found = sum((Counter(row) & Counter(best)).values())
            found = found if found > 1 else 0
            right, cells, missed = right + found, cells + len(row), missed + len(row) - found
        whole += not missed
    return right, cells, whole


def _foreign(path: Path, truth: list[list[list[str]]], pages: int) -> dict[str, Any]:
    import pdfplumber  # type: ignore[import-not-found]

    started = time.process_time()
    rows = []
    with pdfplumber.open(path) as document:
        for page in document.pages:
            for table in page.extract_tables():
                rows += [[_folded(cell or "") for cell in row] for row in table]
            page.close()
    seconds = time.process_time() - started
    right, cells, whole = _cells_right(truth, rows)
    return {"pages": pages, "seconds": round(seconds, 2), "cells": cells, "right": right, "tables": len(truth), "whole": whole}  # fmt: skip


def _sum(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    keys: Iterator[str] = (key for key in results[0] if key not in ("set", "file"))
    total = {key: sum(result.get(key, 0) for result in results) for key in keys}
    return {"set": name, "file": f"{len(results)} files", **total}


def _line(found: dict[str, Any]) -> str:
    rest = " ".join(f"{key}={value}" for key, value in found.items() if key not in ("set", "file"))
    milliseconds = 1000 * found["seconds"] / max(found["pages"], 1)
    return f"{found['set']:22}{found['file']:32}{milliseconds:7.1f} ms/page {rest}"


if __name__ == "__main__":
    import django

    django.setup()
    main()
