"""Rows of questions and answers: CSV files, and what spreadsheets share with them. One block a row, its category with it.

Columns are found by name in French or English, whatever their case, accents and order; others are ignored. A row without
its question or its answer is left out with a notice that names its line.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from django.utils.translation import gettext as _

from knowledge.language.folding import fold_to_letters
from knowledge.models import SourceType
from knowledge.parsing.base import (
    Block,
    ParsedDocument,
    clean_text,
    one_line,
    title_from_filename,
    unreadable,
)
from knowledge.parsing.html.page import html_fragment_text
from knowledge.parsing.text import decode_text

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
_HTML = re.compile(
    r"</?(?:p|div|br|ul|ol|li|a|strong|em|b|i|u|h[1-6]|table|tr|td|span|sup)\b[^>]*>"
    r"|&(?:[a-zA-Z]{2,8}|#\d{2,5});",
    re.IGNORECASE,
)
_MAX_NOTICES = 100


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


def question_columns(header: Sequence[str]) -> dict[str, int]:
    """Where the header has its question, answer and category; empty without the first two."""
    columns: dict[str, int] = {}
    for index, name in enumerate(header):
        if meaning := _COLUMNS.get(fold_to_letters(name)):
            columns.setdefault(meaning, index)
    return columns if {"question", "answer"} <= columns.keys() else {}


def add_question_row(
    line: int,
    row: Sequence[str],
    columns: Mapping[str, int],
    blocks: list[Block],
    notices: list[str],
) -> None:
    values = {
        name: _cell(row[index]) if index < len(row) else "" for name, index in columns.items()
    }
    if not values["question"]:
        notices.append(_("ligne %(line)d : pas de question, ignorée") % {"line": line})
    elif not values["answer"]:
        notices.append(_("ligne %(line)d : pas de réponse, ignorée") % {"line": line})
    else:
        blocks.append(
            Block(
                values["answer"],
                headings=(),
                kind="qa",
                question=one_line(values["question"]),
                category=one_line(values.get("category", "")),
            )
        )


def some_notices(notices: Sequence[str]) -> tuple[str, ...]:
    """The notices, as many as somebody may read, and how many more there are."""
    more = len(notices) - _MAX_NOTICES
    if more <= 0:
        return tuple(notices)
    return (*notices[:_MAX_NOTICES], _("et %(count)d autres lignes ignorées") % {"count": more})


def _cell(value: str) -> str:
    text = html_fragment_text(value) if _HTML.search(value) else value
    return clean_text(text).strip()
