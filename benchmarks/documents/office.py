"""Measure what becomes of Word, PowerPoint, Excel and Markdown files: words, code, titles, tables, milliseconds a page.

    python -m benchmarks.documents.office FOLDER docx

The words that a file shows are told by its own XML, read by the standard library alone; tables of Word files, and all
of Markdown, by pandoc. Each folder in FOLDER is a set.
"""

import argparse
import json
import posixpath
import re
import subprocess
import sys
import time
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import django

from benchmarks.documents.pdf import _cells_right, _folded, _markdown_tables

#: What fits on a page where a file does not say how many it has.
PAGE_WORDS = 400
MOST_BYTES = 10_000_000
COLUMNS = "files unread pages words lost added glued contents fences bare cells right tables whole milliseconds".split()
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CONTENTS = re.compile(r"(?:toc|tm|verzeichnis)\s?\d|table ?of ?figures", re.I)
Table = list[list[str]]


@dataclass
class Shown:
    """What a file shows: its paragraphs, rows of cells of its tables, the lines of its lists of contents, how many
    pages.
    """

    texts: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    pages: int = 0


def words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def _unlinked(text: str, kind: str) -> str:
    """Without the addresses of links, and the tags that Markdown may hold."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"</?[a-z][^<>]*>", "", text) if kind == "md" else text


def _unmarked(text: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def _related(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """By identifier, the kind and the name of the parts that a part refers to."""
    folder, name = posixpath.split(part)
    rels = f"{folder}/_rels/{name}.rels"
    if rels not in archive.namelist():
        return {}
    return {
        one.get("Id", ""): (
            one.get("Type", "").rpartition("/")[2],
            posixpath.normpath(posixpath.join("/", folder, one.get("Target", "")))[1:],
        )
        for one in ElementTree.fromstring(archive.read(rels))  # noqa: S314  # files chosen by hand
        if one.get("TargetMode") != "External"
    }


def _tree(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part))  # noqa: S314  # files chosen by hand


def _drawn(archive: zipfile.ZipFile, part: str) -> Iterator[str]:
    """What charts and diagrams of a part say: titles, names of series and categories, texts."""
    for kind, target in _related(archive, part).values():
        if kind == "chart":
            tree = _tree(archive, target)
            for holder in [*tree.iter(f"{_C}tx"), *tree.iter(f"{_C}cat"), *tree.iter(f"{_C}title")]:
                yield from (p.text or "" for p in holder.iter(f"{_C}v"))
            yield from ("".join(p.itertext()) for p in tree.iter(f"{_A}p"))
        elif kind == "diagramData":
            yield from ("".join(t.text or "" for t in p.iter(f"{_A}t")) for p in _tree(archive, target).iter(f"{_A}p"))


def _word_lines(root: ElementTree.Element, shown: Shown) -> Iterator[str]:
    """The lines of a part in order; a paragraph in a box within one is a line of its own."""
    lines = [""]

    def walk(node: ElementTree.Element, *, in_contents: bool) -> None:
        tag = node.tag.rpartition("}")[2]
        if tag in ("del", "moveFrom", "Fallback", "tabs"):
            return
        gallery = node.find(f"{_W}sdtPr/{_W}docPartObj/{_W}docPartGallery")
        style = node.find(f"{_W}pPr/{_W}pStyle")
        in_contents = (
            in_contents
            or (gallery is not None and "Contents" in gallery.get(f"{_W}val", ""))
            or (style is not None and bool(_CONTENTS.match(style.get(f"{_W}val", ""))))
        )
        if tag == "r" and node.find(f"{_W}rPr/{_W}vanish") is not None:
            return
        if tag == "p":
            lines.append("")
        if tag == "t":
            lines[-1] += node.text or ""
        elif tag in ("tab", "br", "cr"):
            lines[-1] += " "
        elif tag == "noBreakHyphen":
            lines[-1] += "-"
        for child in node:
            walk(child, in_contents=in_contents)
        if tag == "p":
            if in_contents:
                shown.contents.append(lines.pop())
            lines.append("")

    walk(root, in_contents=False)
    return (line for line in lines if line.strip())


def shown_docx(path: Path) -> Shown:
    shown = Shown()
    with zipfile.ZipFile(path) as archive:
        main = next(n for n in archive.namelist() if re.fullmatch(r"word/document\d*\.xml", n))
        shown.texts += _word_lines(_tree(archive, main), shown)
        for kind, target in _related(archive, main).values():
            if kind in ("footnotes", "endnotes"):
                shown.texts += _word_lines(_tree(archive, target), shown)
        shown.texts += _drawn(archive, main)
        if "docProps/app.xml" in archive.namelist():
            pages = re.search(rb"<Pages>(\d+)<", archive.read("docProps/app.xml"))
            shown.pages = int(pages[1]) if pages else 0
    shown.tables = _pandoc_tables(path, "docx")
    return shown


def shown_pptx(path: Path) -> Shown:
    shown = Shown()
    title = ""
    with zipfile.ZipFile(path) as archive:
        main = "ppt/presentation.xml"
        parts = _related(archive, main)
        for one in _tree(archive, main).iter(f"{_P}sldId"):
            slide = parts[one.get(f"{_R}id", "")][1]
            tree = _tree(archive, slide)
            if tree.get("show") in ("0", "false"):
                continue
            shown.pages += 1
            title = _same_title_once(tree, title)
            pages = [(slide, tree)]
            pages += [
                (target, _tree(archive, target))
                for kind, target in _related(archive, slide).values()
                if kind == "notesSlide"
            ]
            for part, root in pages:
                _slide(root, shown)
                shown.texts += _drawn(archive, part)
    return shown


def _same_title_once(root: ElementTree.Element, before: str) -> str:
    """The title of a slide, which is taken out where it is that of the slide before: passages have it above them once."""
    for shape in root.iter(f"{_P}sp"):
        mark = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        if mark is not None and mark.get("type") in ("title", "ctrTitle"):
            title = " ".join(words(" ".join(t.text or "" for t in shape.iter(f"{_A}t"))))
            if title == before:
                shape.clear()
            return title
    return ""


def _slide(root: ElementTree.Element, shown: Shown) -> None:
    for fallback in [*root.iter("{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent")]:  # fmt: skip
        for child in [c for c in fallback if c.tag.endswith("Fallback")]:
            fallback.remove(child)
    for shape in [*root.iter(f"{_P}sp")]:
        mark = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        if mark is not None and mark.get("type") in ("sldNum", "dt", "ftr", "hdr"):
            shape.clear()
    for paragraph in root.iter(f"{_A}p"):
        pieces = (
            " " if t.tag == f"{_A}br" else t.text or "" for t in paragraph.iter() if t.tag in (f"{_A}t", f"{_A}br")
        )
        shown.texts.append("".join(pieces))
    for table in root.iter(f"{_A}tbl"):
        rows = [
            [_folded("".join(t.text or "" for t in cell.iter(f"{_A}t"))) for cell in row.findall(f"{_A}tc")]
            for row in table.findall(f"{_A}tr")
        ]  # fmt: skip
        shown.tables += _compared(rows)


def shown_xlsx(path: Path) -> Shown:
    shown = Shown()
    with zipfile.ZipFile(path) as archive:
        main = "xl/workbook.xml"
        parts = _related(archive, main)
        shared = next((target for kind, target in parts.values() if kind == "sharedStrings"), "")
        strings = [
            "".join(t.text or "" for r in [one, *one.findall(f"{_S}r")] for t in r.findall(f"{_S}t"))
            for one in (_tree(archive, shared) if shared in archive.namelist() else [])
        ]  # fmt: skip
        for sheet in _tree(archive, main).iter(f"{_S}sheet"):
            kind, target = parts[sheet.get(f"{_R}id", "")]
            if kind != "worksheet" or sheet.get("state", "visible") != "visible":
                continue
            shown.pages += 1
            rows: Table = []
            for row in _tree(archive, target).iter(f"{_S}row"):
                cells = [text for cell in row if (text := _cell(cell, strings))]
                shown.texts += cells
                rows.append([_folded(cell) for cell in cells])
            shown.tables += _compared(rows)
    return shown


def _cell(cell: ElementTree.Element, strings: list[str]) -> str:
    """The text of a cell; numbers are not compared, they are shown by formats."""
    value = cell.findtext(f"{_S}v") or ""
    match cell.get("t"):
        case "s":
            text = strings[int(value)]
        case "inlineStr":
            text = "".join(t.text or "" for t in cell.iter(f"{_S}t"))
        case "str":
            text = value
        case _:
            text = ""
    return text.replace("_x000D_", " ").strip()


def shown_md(path: Path) -> Shown:
    plain = _pandoc(path, "gfm+yaml_metadata_block", "plain")
    return Shown(texts=plain.splitlines(), tables=_pandoc_tables(path, "gfm"))


def _pandoc(path: Path, kind: str, form: str) -> str:
    command = ["pandoc", "-f", kind, "-t", form, "--wrap=none", str(path)]
    found = subprocess.run(command, capture_output=True, check=False, timeout=120)  # noqa: S603  # fixed command
    return found.stdout.decode(errors="replace")


def _pandoc_tables(path: Path, kind: str) -> list[Table]:
    """The tables of a file that are in no other, as pandoc reads them."""
    found: list[Table] = []

    def text(node: Any) -> str:
        match node:
            case {"t": "Str", "c": str(said)}:
                return said
            case {"t": "Code" | "CodeBlock" | "Math", "c": [_, str(said)]}:
                return said
            case {"t": "Note" | "RawInline"}:
                return ""
            case {"c": inner}:
                return text(inner)
            case list():
                return "".join(map(text, node))
            case _:
                return ""

    def walk(node: Any) -> None:
        match node:
            case {"t": "Table", "c": [_, _, _, head, bodies, foot]}:
                rows = [*head[1], *(r for b in bodies for r in [*b[2], *b[3]]), *foot[1]]
                found.extend(_compared([[_folded(text(c[4])) for c in row[1]] for row in rows]))
            case dict():
                walk(node.get("c"))
            case list():
                for one in node:
                    walk(one)

    walk(json.loads(_pandoc(path, kind, "json") or '{"blocks": []}')["blocks"])
    return found


def _compared(rows: Table) -> list[Table]:
    """The table without empty cells and rows of one cell, if anything is left to compare."""
    filled = [row for line in rows if len(row := [cell for cell in line if cell]) > 1]
    return [filled] if len(filled) > 1 else []


def measure(path: Path, kind: str) -> Counter[str]:
    from knowledge.chunking import affordable_chunks
    from knowledge.errors import UnreadableDocumentError
    from knowledge.readers.registry import parse_document

    count: Counter[str] = Counter(files=1)
    data = path.read_bytes()
    started = time.process_time()
    try:
        parsed = parse_document(data, filename=path.name)
    except UnreadableDocumentError as error:
        print(f"{path}: {error}", file=sys.stderr)
        count["unread"] += 1
        return count
    chunks = affordable_chunks(parsed)[0]
    count["microseconds"] = round(1_000_000 * (time.process_time() - started))
    shown = {"docx": shown_docx, "pptx": shown_pptx, "xlsx": shown_xlsx, "md": shown_md}[kind](path)
    sequence = [word for text in shown.texts for word in words(text)]
    expected = Counter(sequence)
    headings = Counter(words(parsed.title))
    above: list[str] = []
    for chunk in chunks:
        steps = chunk.parent_context.split(" > ")
        same = len(posixpath.commonprefix([above, steps]))
        headings.update(word for step in steps[same:] for word in words(step))
        above = steps
    contents = [_unmarked(_unlinked(chunk.content, kind)) for chunk in chunks]
    for chunk in chunks:
        contents += [u.question for u in chunk.units if u.question not in chunk.content]
    said = Counter(word for content in contents for word in words(content))
    lost = expected - (said + headings)
    pairs = {first + second for first, second in pairwise(sequence)}
    count["pages"] = shown.pages or max(1, round(len(sequence) / PAGE_WORDS))
    count["words"] = expected.total()
    count["lost"] = lost.total()
    count["added"] = (said - expected - headings).total()
    count["glued"] = sum(word in pairs for word in said.keys() - expected.keys() if len(word) > 3)
    lines = {_folded(line) for content in contents for line in content.splitlines()}
    count["contents"] = sum(_folded(line) in lines for line in shown.contents if re.search(r"\d\s*$", line))
    for chunk in chunks:
        count["fences"] += len(re.findall(r"(?m)^\s*(?:- )?`{3,}", chunk.content)) % 2
        count["bare"] += bool(re.fullmatch(r"\*\*[^*]+\*\*", chunk.content.strip().split("\n")[-1]))
    rows = _markdown_tables("\n".join(_unlinked(c.content, kind) for c in chunks))
    right, cells, whole = _cells_right(shown.tables, rows)
    count += Counter(cells=cells, right=right, tables=len(shown.tables), whole=whole)
    most = ", ".join(f"{word} {number}" for word, number in lost.most_common(12))
    print(f"{path.name}: {dict(count)} lost: {most}", file=sys.stderr)
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=["docx", "pptx", "xlsx", "md"])
    parser.add_argument("--most", type=int, default=25, help="files of a set, over the whole of it")
    options = parser.parse_args(arguments)
    django.setup()
    print("set\t" + "\t".join(COLUMNS))
    for folder in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.rglob(f"*.{options.kind}")) if path.stat().st_size < MOST_BYTES]
        total: Counter[str] = Counter()
        for path in files[:: max(1, len(files) // options.most)][: options.most]:
            total += measure(path, options.kind)
        if total:
            total["milliseconds"] = round(total["microseconds"] / 1_000 / max(1, total["pages"]))
            print(folder.name + "".join(f"\t{total[name]}" for name in COLUMNS), flush=True)


if __name__ == "__main__":
    main()
