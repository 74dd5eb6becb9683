"""Tables of questions and answers, for documents and imports: the rows of a CSV text, and where the columns stand, by
their names in French or English, whatever their case, accents, order and further words.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise

from knowledge.language.words import fold

_MEANINGS = {
    "question": re.compile(r"questions?|demandes?|q"),
    "answer": re.compile(r"reponses?|answers?|reply|replies|r"),
    "category": re.compile(r"categor(?:y|ie|ies)|themes?|thematiques?|rubriques?|topics?"),
}
#: With one of these words a name says something about a question or an answer.
_ABOUT = frozenset("n no num numero id date nombre type auteur statut etat source number author status count".split())
#: What a table of questions may have above its names of columns.
TITLE_ROWS = 5
_DELIMITERS = ",;\t|"
#: Excel's own first line.
_DECLARED = re.compile(r"\ufeff?sep=(.)\r?\n", re.IGNORECASE)

CsvRows = Iterator[tuple[int, list[str]]]
Columns = Callable[[Sequence[str]], dict[str, int]]


def question_columns(header: Sequence[str]) -> dict[str, int]:
    """Where the header has its question, answer and category, by whole names first; empty without the first two."""
    columns: dict[str, int] = {}
    names = [re.findall(r"[a-z]+", fold(name)[:200]) for name in header]
    for most in (1, 6):
        for index, words in enumerate(names):
            if not 0 < len(words) <= most or not _ABOUT.isdisjoint(words) or index in columns.values():
                continue
            said = {meaning for meaning, form in _MEANINGS.items() if any(map(form.fullmatch, words))}
            # « Question ou réponse ? » names neither.
            if len(said) == 1:
                columns.setdefault(said.pop(), index)
    return columns if {"question", "answer"} <= columns.keys() else {}


def question_rows(text: str, columns_of: Columns = question_columns) -> tuple[str, dict[str, int], CsvRows] | None:
    """The delimiter under which a first row has the columns (of questions, or others), where they are, its row and on."""
    for delimiter in _delimiters(text):
        first: list[list[str]] = []
        with suppress(csv.Error):
            first.extend(cells for _line, cells in islice(csv_rows(text, delimiter), TITLE_ROWS + 1))
        for at, (cells, following) in enumerate(pairwise([*first, first[-1]] if first else [])):
            columns = columns_of(cells)
            needed = (columns[name] for name in ("question", "answer") if name in columns)
            if columns and max(needed, default=0) < len(following):
                return delimiter, columns, islice(csv_rows(text, delimiter), at, None)
    return None


def table_rows(text: str) -> list[list[str]]:
    """The rows of any other table: under the delimiter that gives most of them one number of cells; empty for none."""
    best: tuple[int, list[list[str]]] = (0, [])
    for delimiter in _delimiters(text):
        try:
            rows = [cells for _line, cells in csv_rows(text, delimiter)]
        except csv.Error:
            continue
        (width, count), *_others = Counter(map(len, rows)).most_common(1) or [(0, 0)]
        if width > 1 and 2 * count > len(rows) > 1 and count * (width - 1) > best[0]:
            best = count * (width - 1), rows
    return best[1]


def _delimiters(text: str) -> str:
    declared = _DECLARED.match(text)
    return declared[1] if declared else _DELIMITERS


def csv_rows(text: str, delimiter: str) -> CsvRows:
    """Rows that are not empty, with the line they begin on."""
    declared = _DECLARED.match(text)
    reader = csv.reader(io.StringIO(text[declared.end() if declared else 0 :], newline=""), delimiter=delimiter)
    line = above = 1 + bool(declared)
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + above
