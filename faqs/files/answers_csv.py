"""Validated answers as CSV, in and out: columns `question`, `answer`, `category`.

Several phrasings stand in the cell of the question, one a line, the question first; what is exported comes back the
same. A cell that a spreadsheet would run as a formula is written with an apostrophe in front, which is taken off again
on the way in. What is done with the rows of a file is `faqs.files.importing`.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext as _

from faqs.answers.texts import one_line
from faqs.answers.writing import DEFAULT_CATEGORY
from faqs.exceptions import AnswerRejectedError
from faqs.models import LearnedKind, LearnedResponse
from knowledge.question_tables import csv_dialect, csv_rows

COLUMNS = ("question", "answer", "category")
#: What a spreadsheet may take for a formula, behind any number of apostrophes; full-width signs included.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@＝＋－＠\t\r]")


@dataclass(frozen=True, slots=True)
class FaqRow:
    """One validated answer as the file has it; `line` is where its row begins."""

    question: str
    answer: str
    category: str = DEFAULT_CATEGORY
    phrasings: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that cannot be kept, by its line, and why."""

    line: int
    item: str
    reason: str


def export_csv(rows: Iterable[LearnedResponse]) -> Iterator[str]:
    """The file, a piece a row; courtesies are left out, since the columns cannot tell them apart."""
    return csv_lines(
        FaqRow(
            question=row.question,
            answer=row.answer,
            category=row.category,
            phrasings=tuple(phrasing.text for phrasing in row.phrasings.all()),
        )
        for row in rows
        if row.kind == LearnedKind.FAQ
    )


def csv_lines(rows: Iterable[FaqRow]) -> Iterator[str]:
    yield _csv_line(COLUMNS)
    for row in rows:
        yield _csv_line(("\n".join((row.question, *row.phrasings)), row.answer, row.category))


def parse_csv(data: bytes) -> tuple[list[FaqRow], list[Failure]]:
    """The rows of a file and what was refused; raises `AnswerRejectedError` where nothing can be read."""
    if len(data) > settings.FAQ_MAX_IMPORT_BYTES:
        raise AnswerRejectedError(_("Le fichier dépasse %(limit)d octets.") % {"limit": settings.FAQ_MAX_IMPORT_BYTES})
    text = _decoded(data)
    if (found := csv_dialect(text)) is None:
        raise AnswerRejectedError(
            _(
                "Ce fichier CSV n’a pas les colonnes attendues : « question » et « answer » "
                "(ou « réponse »), et « category » (ou « catégorie ») si besoin."
            )
        )
    delimiter, columns = found
    rows: list[FaqRow] = []
    failed: list[Failure] = []
    try:
        lines = csv_rows(text, delimiter)
        width = len(next(lines)[1])
        for line, cells in lines:
            if len(rows) >= settings.FAQ_MAX_IMPORT_ROWS:
                reason = _("La limite de %(limit)d lignes est atteinte ; la suite est ignorée.")
                failed.append(Failure(line, "", reason % {"limit": settings.FAQ_MAX_IMPORT_ROWS}))
                break
            if any(cell.strip() for cell in cells[width:]):
                reason = _(
                    "La ligne a plus de cellules que l’en-tête : un texte qui contient « %(delimiter)s » va entre guillemets."
                )
                failed.append(Failure(line, cells[0][:200], reason % {"delimiter": delimiter}))
                continue
            rows.append(_row(line, cells, columns))
    except csv.Error as error:
        reason = _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
        if not rows:
            raise AnswerRejectedError(reason) from error
        failed.append(Failure(rows[-1].line, "", reason))
    return rows, failed


def _csv_line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([guarded(cell) for cell in cells])
    return out.getvalue()


def guarded(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _unguarded(cell: str) -> str:
    return cell[1:] if _ESCAPED.match(cell) else cell


def _decoded(data: bytes) -> str:
    """UTF-8, UTF-16 with its mark, or what a French Windows writes."""
    encodings: tuple[str, ...]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ("utf-16",)
    else:
        encodings = ("utf-8-sig", "cp1252")
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise AnswerRejectedError(_("Ce fichier n’est pas un texte ; enregistrez-le en CSV UTF-8."))


def _row(line: int, cells: list[str], columns: dict[str, int]) -> FaqRow:
    values = {name: _unguarded(cells[index]) if index < len(cells) else "" for name, index in columns.items()}
    question, *phrasings = values["question"].strip().splitlines() or [""]
    return FaqRow(
        question=question,
        answer=values["answer"],
        category=one_line(values.get("category", ""))[:200] or DEFAULT_CATEGORY,
        phrasings=tuple(phrasings),
        line=line,
    )
