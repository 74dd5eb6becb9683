"""Rows of questions and answers: CSV files, and what spreadsheets share with them. One block a row, its category with
it.

A row without its question or its answer is left out with a notice that names its line.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from itertools import islice

from django.utils.translation import gettext as _

from knowledge.models import SourceType
from knowledge.question_tables import csv_dialect, csv_rows
from knowledge.readers.base import Block, ParsedDocument, clean_text, one_line, title_from_filename, unreadable
from knowledge.readers.html.page import html_fragment_text
from knowledge.readers.text import decode_text

_HTML = re.compile(
    r"</?(?:p|div|br|ul|ol|li|a|strong|em|b|i|u|h[1-6]|table|tr|td|span|sup)\b[^>]*>"
    r"|&(?:[a-zA-Z]{2,8}|#\d{2,5});",
    re.IGNORECASE,
)
_MAX_NOTICES = 100


def parse_csv(data: bytes, *, filename: str) -> ParsedDocument:
    text = decode_text(data, filename=filename)
    if (found := csv_dialect(text)) is None:
        raise unreadable(
            f"{filename}: no question and answer columns",
            _(
                "Ce fichier CSV n’a pas les colonnes attendues : « question » et « answer » "
                "(ou « réponse »), et « category » (ou « catégorie ») si besoin."
            ),
        )
    delimiter, columns = found
    blocks: list[Block] = []
    notices: list[str] = []
    try:
        for line, row in islice(csv_rows(text, delimiter), 1, None):
            add_question_row(line, row, columns, blocks, notices)
    except csv.Error as error:
        raise unreadable(
            f"{filename}: {error}", _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
        ) from error
    if not blocks:
        raise unreadable(f"{filename}: no row", _("Ce fichier CSV ne contient aucune question avec sa réponse."))
    return ParsedDocument(title_from_filename(filename), tuple(blocks), SourceType.CSV, some_notices(notices))


def add_question_row(
    line: int, row: Sequence[str], columns: Mapping[str, int], blocks: list[Block], notices: list[str]
) -> None:
    values = {name: _cell(row[index]) if index < len(row) else "" for name, index in columns.items()}
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
