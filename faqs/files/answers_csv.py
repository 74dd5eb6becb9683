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
from knowledge.language.folding import fold_to_letters

COLUMNS = ("question", "answer", "category")
_NAMES = {
    "question": "question",
    "questions": "question",
    "answer": "answer",
    "reponse": "answer",
    "category": "category",
    "categorie": "category",
}
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
        raise AnswerRejectedError(
            _("Le fichier dépasse %(limit)d octets.") % {"limit": settings.FAQ_MAX_IMPORT_BYTES}
        )
    text = _decoded(data)
    delimiter, columns = _dialect(text)
    rows: list[FaqRow] = []
    failed: list[Failure] = []
    try:
        lines = _lines(text, delimiter)
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
    csv.writer(out, lineterminator="\r\n").writerow([_guarded(cell) for cell in cells])
    return out.getvalue()


def _guarded(cell: str) -> str:
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


def _dialect(text: str) -> tuple[str, dict[str, int]]:
    """The delimiter under which the first line has the columns, and where they are."""
    for delimiter in ",;\t|":
        try:
            header = next((cells for _line, cells in _lines(text, delimiter)), [])
        except csv.Error:
            continue
        columns: dict[str, int] = {}
        for index, name in enumerate(header):
            if meaning := _NAMES.get(fold_to_letters(name)):
                columns.setdefault(meaning, index)
        if {"question", "answer"} <= columns.keys():
            return delimiter, columns
    raise AnswerRejectedError(
        _(
            "Ce fichier CSV n’a pas les colonnes attendues : « question » et « answer » "
            "(ou « réponse »), et « category » (ou « catégorie ») si besoin."
        )
    )


def _lines(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, with the line they begin on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def _row(line: int, cells: list[str], columns: dict[str, int]) -> FaqRow:
    values = {
        name: _unguarded(cells[index]) if index < len(cells) else ""
        for name, index in columns.items()
    }
    question, *phrasings = values["question"].strip().splitlines() or [""]
    return FaqRow(
        question=question,
        answer=values["answer"],
        category=one_line(values.get("category", ""))[:200] or DEFAULT_CATEGORY,
        phrasings=tuple(phrasings),
        line=line,
    )
