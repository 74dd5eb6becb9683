"""Questions and answers as CSV: one block a row, the category with it.

What a row must have, and how columns are found by name, is in `knowledge.parsing.rows`.
"""

import csv
import io
from collections.abc import Iterator
from itertools import islice

from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.parsing.base import Block, ParsedDocument, title_from_filename, unreadable
from knowledge.parsing.rows import add_question_row, question_columns, some_notices
from knowledge.parsing.text import decode_text


def parse_csv(data: bytes, *, filename: str) -> ParsedDocument:
    text = decode_text(data, filename=filename)
    delimiter, columns = _dialect(text, filename=filename)
    blocks: list[Block] = []
    notices: list[str] = []
    try:
        for line, row in islice(_rows(text, delimiter), 1, None):
            add_question_row(line, row, columns, blocks, notices)
    except csv.Error as error:
        raise unreadable(
            f"{filename}: {error}",
            _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error},
        ) from error
    if not blocks:
        raise unreadable(
            f"{filename}: no row", _("Ce fichier CSV ne contient aucune question avec sa réponse.")
        )
    return ParsedDocument(
        title_from_filename(filename), tuple(blocks), SourceType.CSV, some_notices(notices)
    )


def _dialect(text: str, *, filename: str) -> tuple[str, dict[str, int]]:
    """The delimiter under which the header has the columns, and where they are."""
    for delimiter in ",;\t|":
        try:
            header = next((row for _line, row in _rows(text, delimiter)), [])
        except csv.Error:
            continue
        if columns := question_columns(header):
            return delimiter, columns
    raise unreadable(
        f"{filename}: no question and answer columns",
        _(
            "Ce fichier CSV n’a pas les colonnes attendues : « question » et « answer » "
            "(ou « réponse »), et « category » (ou « catégorie ») si besoin."
        ),
    )


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the line they begin on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 1
    for row in reader:
        if any(cell.strip() for cell in row):
            yield line, row
        line = reader.line_num + 1
