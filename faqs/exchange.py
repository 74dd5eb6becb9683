"""Validated answers as CSV, in and out: columns `question`, `answer`, `category`.

Several phrasings stand in the cell of the question, one a line, the question first; what is exported comes back the
same. A cell that a spreadsheet would run as a formula is written with an apostrophe in front, which is taken off again
on the way in. A row that cannot be kept is reported with its line, and the rest is done.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from agents.exceptions import ApplicationError
from agents.models import Agent
from faqs.exceptions import AnswerRejectedError
from faqs.indexing import schedule_indexing
from faqs.learning import (
    DEFAULT_CATEGORY,
    clean_answer,
    one_line,
    other_phrasings,
    save_learned,
    validate,
)
from faqs.memory.keys import normalised_question
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus
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
#: Rows that are stored in one transaction.
_BATCH = 200


@dataclass(frozen=True, slots=True)
class FaqRow:
    """One validated answer as the file has it; `line` is where its row begins."""

    question: str
    answer: str
    category: str = DEFAULT_CATEGORY
    phrasings: tuple[str, ...] = ()
    line: int = 0


@dataclass(slots=True)
class ImportReport:
    """What became of the rows of a file. `failed`: `{line, item, reason}`. `keys`: the rows whose points must follow."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: list[dict[str, str | int]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)

    def fail(self, line: int, item: str, reason: str) -> None:
        self.failed.append({"line": line, "item": item[:200], "reason": reason})


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


def parse_csv(data: bytes) -> tuple[list[FaqRow], list[dict[str, str | int]]]:
    """The rows of a file and what was refused; raises `AnswerRejectedError` where nothing can be read."""
    if len(data) > settings.FAQ_MAX_IMPORT_BYTES:
        raise AnswerRejectedError(
            _("Le fichier dépasse %(limit)d octets.") % {"limit": settings.FAQ_MAX_IMPORT_BYTES}
        )
    text = _decoded(data)
    delimiter, columns = _dialect(text)
    rows: list[FaqRow] = []
    report = ImportReport()
    try:
        for line, cells in islice(_lines(text, delimiter), 1, None):
            if len(rows) >= settings.FAQ_MAX_IMPORT_ROWS:
                report.fail(
                    line,
                    "",
                    _("La limite de %(limit)d lignes est atteinte ; la suite est ignorée.")
                    % {"limit": settings.FAQ_MAX_IMPORT_ROWS},
                )
                break
            rows.append(_row(line, cells, columns))
    except csv.Error as error:
        if not rows:
            raise AnswerRejectedError(
                _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
            ) from error
        report.fail(
            rows[-1].line, "", _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
        )
    return rows, report.failed


def import_csv(agent: Agent, data: bytes, *, in_worker: bool = True) -> ImportReport:
    """Keep every row that can be kept; a question that the agent knows already gets the file's answer.

    With `in_worker` off the caller calls `sync_learned(report.keys)`.
    """
    read, failed = parse_csv(data)
    report = ImportReport(failed=failed)
    rows = _without_repetitions(read, report)
    for start in range(0, len(rows), _BATCH):
        _store(agent, rows[start : start + _BATCH], report)
    if in_worker and report.keys:
        with transaction.atomic():
            schedule_indexing(report.keys)
    return report


def _without_repetitions(rows: list[FaqRow], report: ImportReport) -> list[FaqRow]:
    """The first row of each question; a later one with another answer is a contradiction that a person must settle."""
    first: dict[str, FaqRow] = {}
    for row in rows:
        known = first.setdefault(normalised_question(row.question) or f"line {row.line}", row)
        if known is row:
            continue
        if clean_answer(known.answer) == clean_answer(row.answer):
            report.unchanged += 1
        else:
            reason = _("Même question qu’à la ligne %(line)d, avec une autre réponse.")
            report.fail(row.line, row.question, reason % {"line": known.line})
    return list(first.values())


def _store(agent: Agent, rows: list[FaqRow], report: ImportReport) -> None:
    keys = [normalised_question(row.question) for row in rows]
    with transaction.atomic():
        known = {
            response.question_key: response
            for response in LearnedResponse.objects.filter(
                agent=agent, question_key__in=keys, kind=LearnedKind.FAQ
            ).prefetch_related("phrasings")
        }
        for key, row in zip(keys, rows, strict=True):
            try:
                known[key] = _store_row(agent, row, known.get(key), report)
            except ApplicationError as error:
                report.fail(row.line, row.question, str(error.public_message))


def _store_row(
    agent: Agent, row: FaqRow, response: LearnedResponse | None, report: ImportReport
) -> LearnedResponse:
    wanted = other_phrasings(one_line(row.question), row.phrasings)
    is_new = response is None
    if response is None:
        response = LearnedResponse(agent=agent)
    elif (
        (response.answer, response.category, response.status)
        == (clean_answer(row.answer), row.category, LearnedStatus.VALID)
        and response.question == one_line(row.question)
        and [phrasing.text for phrasing in response.phrasings.all()] == wanted
    ):
        report.unchanged += 1
        return response
    response.question, response.answer, response.category = row.question, row.answer, row.category
    validate(response)
    save_learned(response, phrasings=wanted, in_worker=False)
    report.keys.append(response.pk)
    if is_new:
        report.created += 1
    else:
        report.updated += 1
    return response


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
