"""`docs/doors.md`: sections of rows, one row a door, a column a role; and the table of attacks in `docs/security.md`.

Written by `make doors`, read by the tests.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"
#: Set by `make doors`: what was seen is written instead of compared.
IS_WRITING = os.environ.get("WRITE_DOORS") == "1"

#: By door, what each role met, in the order of the columns.
Rows = Mapping[str, Sequence[str]]


def committed(section: str) -> dict[str, list[str]]:
    """The rows of a section as they stand in the document."""
    rows: dict[str, list[str]] = {}
    for line in _body(_document(section).read_text(), section).splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) > 1 and not cells[0].startswith("---"):
            rows[cells[0].strip("`")] = cells[1:]
    rows.pop("door", None)
    return rows


def write(section: str, columns: Sequence[str], rows: Rows) -> None:
    """Put the rows in the place of those of the section."""
    lines = [_line(["door", *columns]), _line(["---"] * (len(columns) + 1))]
    lines += [_line([f"`{door}`", *rows[door]]) for door in sorted(rows)]
    document = _document(section)
    text = document.read_text()
    start, end = _place(text, section)
    document.write_text(text[:start] + "\n" + "\n".join(lines) + "\n" + text[end:])


def differences(section: str, columns: Sequence[str], seen: Rows) -> list[str]:
    """What was seen and is not committed, and what is committed and was not seen."""
    known = committed(section)
    found = [f"{door}: has no row in docs/doors.md" for door in seen if door not in known]
    found += [f"{door}: has a row and is no door" for door in known if door not in seen]
    for door in seen.keys() & known.keys():
        for column, expected, got in zip(columns, known[door], seen[door], strict=True):
            if expected != got:
                found.append(f"{door} as {column}: {got}, the table says {expected}")
    return sorted(found)


def _document(section: str) -> Path:
    return _DOCS / ("security.md" if section == "attacks" else "doors.md")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _body(text: str, section: str) -> str:
    start, end = _place(text, section)
    return text[start:end]


def _place(text: str, section: str) -> tuple[int, int]:
    found = re.search(rf"<!-- {section} -->(.*?)<!-- /{section} -->", text, re.DOTALL)
    assert found is not None, f"docs/doors.md has no section {section}"
    return found.span(1)
