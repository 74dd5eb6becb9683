"""Rows of questions and answers, wherever a table of them stands (CSV, spreadsheets).

Columns are found by name in French or English, whatever their case, accents and order; others are ignored. A row without
its question or its answer is left out with a notice that names its line.
"""

import re
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from knowledge.language.folding import fold_to_letters
from knowledge.parsing.base import Block, clean_text, one_line
from knowledge.parsing.html import html_fragment_text

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
    *,
    headings: tuple[str, ...] = (),
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
                headings,
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
    return (
        *notices[:_MAX_NOTICES],
        _("et %(count)d autres lignes ignorées") % {"count": more},
    )


def _cell(value: str) -> str:
    text = html_fragment_text(value) if _HTML.search(value) else value
    return clean_text(text).strip()
