"""Tables of questions and answers, for documents and for imports: where the columns stand, and the rows of a CSV text.
Pure.

Columns are found by name in French or English, whatever their case, accents and order; others are ignored.
"""

import csv
import io
from collections.abc import Iterator, Sequence

from knowledge.language.words import fold_to_letters

_COLUMNS = {
    "question": "question",
    "questions": "question",
    "answer": "answer",
    "answers": "answer",
    "reponse": "answer",
    "reponses": "answer",
    "category": "category",
    "categorie": "category",
}


def question_columns(header: Sequence[str]) -> dict[str, int]:
    """Where the header has its question, answer and category; empty without the first two."""
    columns: dict[str, int] = {}
    for index, name in enumerate(header):
        if meaning := _COLUMNS.get(fold_to_letters(name)):
            columns.setdefault(meaning, index)
    return columns if {"question", "answer"} <= columns.keys() else {}


def csv_dialect(text: str) -> tuple[str, dict[str, int]] | None:
    """The delimiter under which the first row has the columns, and where they are."""
    for delimiter in ",;\t|":
        try:
            header = next((cells for _line, cells in csv_rows(text, delimiter)), [])
        except csv.Error:
            continue
        if columns := question_columns(header):
            return delimiter, columns
    return None


def csv_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the line they begin on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1
