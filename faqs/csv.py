"""Validated answers as CSV, in and out: columns `question` (its phrasings below it), `answer`, `category`.

A cell that a spreadsheet would run as a formula has an apostrophe in front, taken off on the way in. `plan_import`
writes nothing; `apply_import` replaces or contradicts an answer only where a person chose it.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

from django import forms
from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import UnfoldAdminFileFieldWidget

from agents.errors import ApplicationError
from agents.models import Agent
from faqs.answers import (
    DEFAULT_CATEGORY,
    AnswerRejectedError,
    check_texts,
    clean_answer,
    one_line,
    other_phrasings,
    save_learned,
    validate,
)
from faqs.memory import normalised_question
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus
from faqs.neighbours import MAX_QUESTIONS, SimilarAnswer, find_similar, waiting_phrasings
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.points import OnProgress, no_progress
from knowledge.question_tables import CsvRows, question_rows
from knowledge.vectors.base import batches

#: One CSV file, read and checked within the request.
FAQ_MAX_IMPORT_BYTES = 5 * 1024 * 1024
FAQ_MAX_IMPORT_ROWS = 10_000

COLUMNS = ("question", "answer", "category")
#: What a spreadsheet may take for a formula, behind any number of apostrophes; full-width signs included.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@＝＋－＠\t\r]")
#: Rows that are read and embedded together.
_BATCH = 200
#: Other answers to its question that a row is shown beside.
_SHOWN_ANSWERS = 3


class RowKind(models.TextChoices):
    """The effect of a file's row. Rows of the kinds in `ASKED` are written only where a person chose them."""

    NEW = "new", gettext_lazy("Nouvelles")
    CHANGED = "changed", gettext_lazy("Modifiées")
    CONTRADICTORY = "contradictory", gettext_lazy("Contradictoires")
    UNCHANGED = "unchanged", gettext_lazy("Inchangées")


ASKED = (RowKind.CHANGED, RowKind.CONTRADICTORY)


@dataclass(frozen=True, slots=True)
class FaqRow:
    """One validated answer as the file has it; `line` is where its row begins."""

    question: str
    answer: str
    category: str = DEFAULT_CATEGORY
    phrasings: tuple[str, ...] = ()
    line: int = 0

    @classmethod
    def of(cls, row: LearnedResponse) -> Self:
        """A stored answer as a file would have it."""
        return cls(row.question, row.answer, row.category, tuple(phrasing.text for phrasing in row.phrasings.all()))

    @property
    def phrasing_lines(self) -> str:
        return "\n".join(sorted(self.phrasings))


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that cannot be kept, by its line, and why."""

    line: int
    item: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A row and what it would do: replace an answer, stand beside others as they were at the time of the plan, or neither."""

    row: FaqRow
    kind: RowKind = RowKind.NEW
    replaces: LearnedResponse | None = None
    contradicts: tuple[LearnedResponse, ...] = ()

    @property
    def choice(self) -> str:
        """The row with the answers that it is shown beside as they are: a choice holds for these alone."""
        answers = filter(None, (self.replaces, *self.contradicts))
        return "-".join([str(self.row.line), *(f"{answer.pk}.{answer.revision}" for answer in answers)])

    @property
    def before(self) -> FaqRow | None:
        """The answer that it would replace."""
        return FaqRow.of(self.replaces) if self.replaces else None

    @property
    def old(self) -> LearnedResponse | None:
        """The answer that it is shown beside."""
        return self.replaces or next(iter(self.contradicts), None)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Every row of a file. `not_compared`: how many could not be looked for among other answers."""

    agent_id: int
    rows: tuple[PlannedRow, ...]
    failed: tuple[Failure, ...]
    not_compared: int = 0
    not_compared_reason: str = ""

    def of_kind(self, *kinds: RowKind) -> list[PlannedRow]:
        return [planned for planned in self.rows if planned.kind in kinds]

    def wanted(self, chosen: Collection[int]) -> list[PlannedRow]:
        """Return what is to be written, in the order of the file: always the same for the same choice."""
        asked = [planned for planned in self.of_kind(*ASKED) if planned.row.line in chosen]
        return sorted([*self.of_kind(RowKind.NEW), *asked], key=lambda each: each.row.line)

    def left(self, chosen: Collection[int]) -> list[PlannedRow]:
        return [planned for planned in self.of_kind(*ASKED) if planned.row.line not in chosen]


@dataclass(slots=True)
class ImportReport:
    """What became of the rows of a file. `left`: not chosen. `keys`: the answers whose points must follow."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: list[Failure] = field(default_factory=list)
    left: list[PlannedRow] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


def export_csv(rows: Iterable[LearnedResponse]) -> Iterator[str]:
    """Yield the file, a piece a row; courtesies are left out, since the columns cannot tell them apart."""
    return csv_lines(FaqRow.of(row) for row in rows if row.kind == LearnedKind.FAQ)


def csv_lines(rows: Iterable[FaqRow]) -> Iterator[str]:
    yield csv_line(COLUMNS)
    for row in rows:
        yield csv_line(("\n".join((row.question, *row.phrasings)), row.answer, row.category))


def csv_file(lines: Iterable[str], name: str) -> HttpResponse:
    """The answer by which a browser saves it."""
    response = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    return response


def csv_line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    # No spreadsheet takes a cell for a formula.
    csv.writer(out, lineterminator="\r\n").writerow([f"'{each}" if _FORMULA.match(each) else each for each in cells])
    return out.getvalue()


def parse_csv(data: bytes | str) -> tuple[list[FaqRow], list[Failure]]:
    """Return the rows of a file and what was refused; raise `AnswerRejectedError` where nothing can be read."""
    if len(data) > FAQ_MAX_IMPORT_BYTES:
        raise AnswerRejectedError(_("Le fichier dépasse %(limit)d octets.") % {"limit": FAQ_MAX_IMPORT_BYTES})
    text = data if isinstance(data, str) else decoded(data)
    if (found := question_rows(text)) is None:
        raise AnswerRejectedError(
            _(
                "Ce fichier CSV n’a pas les colonnes attendues : « question » et « answer » "
                "(ou « réponse »), et « category » (ou « catégorie ») si besoin."
            )
        )
    rows, failed = named_cells(found, FAQ_MAX_IMPORT_ROWS)
    return [_row(line, values) for line, values in rows], failed


NamedCells = list[tuple[int, dict[str, str]]]


def named_cells(found: tuple[str, dict[str, int], CsvRows], limit: int) -> tuple[NamedCells, list[Failure]]:
    """The cells of a table's rows by the names of their columns, up to so many rows, and what was refused."""
    delimiter, columns, lines = found
    rows: NamedCells = []
    failed: list[Failure] = []
    try:
        width = len(next(lines)[1])
        for line, cells in lines:
            if len(rows) >= limit:
                reason = _("La limite de %(limit)d lignes est atteinte ; la suite est ignorée.")
                failed.append(Failure(line, "", reason % {"limit": limit}))
                break
            if any(cell.strip() for cell in cells[width:]):
                reason = _(
                    "La ligne a plus de cellules que l’en-tête : un texte qui contient « %(delimiter)s » va entre guillemets."
                )
                failed.append(Failure(line, cells[0][:200], reason % {"delimiter": delimiter}))
                continue
            values = {name: cells[index] if index < len(cells) else "" for name, index in columns.items()}
            rows.append((line, {name: cell[1:] if _ESCAPED.match(cell) else cell for name, cell in values.items()}))
    except csv.Error as error:
        reason = _("Ce fichier CSV est mal formé : %(reason)s") % {"reason": error}
        if not rows:
            raise AnswerRejectedError(reason) from error
        failed.append(Failure(rows[-1][0], "", reason))
    return rows, failed


class CsvFileField(forms.FileField):
    """A form's CSV file of so many bytes at most; its value is the text."""

    widget = UnfoldAdminFileFieldWidget

    def __init__(self, most: int, **kwargs: Any) -> None:
        super().__init__(label=gettext_lazy("Fichier CSV"), **kwargs)
        self.most = most

    def clean(self, data: Any, initial: Any = None) -> str:
        file = super().clean(data, initial)
        if file.size > self.most:
            raise forms.ValidationError(_("Le fichier dépasse %(limit)d octets.") % {"limit": self.most})
        try:
            return decoded(file.read())
        except AnswerRejectedError as error:
            raise forms.ValidationError(str(error.public_message)) from error


def decoded(data: bytes) -> str:
    """Read UTF-8, UTF-16 with its mark, or what a French Windows writes."""
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if utf_16 else ("utf-8-sig", "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise AnswerRejectedError(_("Ce fichier n’est pas un texte ; enregistrez-le en CSV UTF-8."))


def _row(line: int, values: dict[str, str]) -> FaqRow:
    question, *phrasings = values["question"].strip().splitlines() or [""]
    category = one_line(values.get("category", ""))[:200] or DEFAULT_CATEGORY
    return FaqRow(question, values["answer"], category, tuple(phrasings), line)


def plan_import(
    agent: Agent, data: bytes | str, *, most: int | None = None, on_progress: OnProgress = no_progress
) -> ImportPlan:
    """Return what an import of this file would do; a file of more than `most` questions is refused before."""
    read, failed = parse_csv(data)
    if most is not None and sum(1 + len(row.phrasings) for row in read) + len(failed) > most:
        reason = _("Le fichier a plus de %(rows)d lignes : la commande import_faqs les importe toutes.")
        raise AnswerRejectedError(reason % {"rows": most})
    rows: list[PlannedRow] = []
    first: dict[str, FaqRow] = {}
    for batch in batches(map(_cleaned, read), _BATCH):
        known = _answers_to(agent, [row.question for row in batch])
        for row in batch:
            key = normalised_question(row.question)
            before = first.setdefault(key or f"line {row.line}", row)
            try:
                rows.append(_planned(row, before, known.get(key)))
            except AnswerRejectedError as error:
                failed.append(_failure(row, error))
    plan = ImportPlan(agent.pk, tuple(rows), tuple(sorted(failed, key=lambda each: each.line)))
    return _with_contradictions(plan, agent, on_progress)


def _cleaned(row: FaqRow) -> FaqRow:
    question = one_line(row.question)
    phrasings = tuple(other_phrasings(question, row.phrasings))
    return replace(row, question=question, answer=clean_answer(row.answer), phrasings=phrasings)


def _planned(row: FaqRow, first: FaqRow, known: LearnedResponse | None) -> PlannedRow:
    """The first row of each question counts; a later one with another answer is refused."""
    if first is not row:
        if first.answer != row.answer:
            reason = _("Même question qu’à la ligne %(line)d, avec une autre réponse.")
            raise AnswerRejectedError(reason % {"line": first.line})
        return PlannedRow(row, RowKind.UNCHANGED)
    if known is None:
        check_texts(row.question, row.answer, row.phrasings)
        return PlannedRow(row)
    stored = FaqRow.of(known)
    # Another order of the phrasings is no difference.
    is_same = (stored.question, stored.answer, stored.category) == (row.question, row.answer, row.category)
    if known.status == LearnedStatus.VALID and is_same and sorted(stored.phrasings) == sorted(row.phrasings):
        return PlannedRow(row, RowKind.UNCHANGED, known)
    check_texts(row.question, row.answer, row.phrasings)
    return PlannedRow(row, RowKind.CHANGED, known)


def _answers_to(agent: Agent, questions: Sequence[str]) -> dict[str, LearnedResponse]:
    """The agent's answer to each question, by its key: a valid one first, then the one changed last."""
    keys = [normalised_question(question) for question in questions]
    rows = LearnedResponse.objects.filter(agent=agent, question_key__in=keys, kind=LearnedKind.FAQ)
    ranked = sorted(
        rows.prefetch_related("phrasings"), key=lambda row: (row.status == LearnedStatus.VALID, row.updated_at)
    )
    return {row.question_key: row for row in ranked}


def _with_contradictions(plan: ImportPlan, agent: Agent, on_progress: OnProgress) -> ImportPlan:
    """Mark the rows whose question another validated answer of the agent answers otherwise."""
    todo = [planned.row for planned in plan.of_kind(RowKind.NEW, RowKind.CHANGED)]
    try:
        similar = _similar(agent, todo, on_progress)
    except ApplicationError as error:
        return replace(plan, not_compared=len(todo), not_compared_reason=str(error.public_message))
    rows = tuple(_beside(planned, similar.get(planned.row.line, ())) for planned in plan.rows)
    return replace(plan, rows=rows)


def _beside(planned: PlannedRow, similar: Iterable[SimilarAnswer]) -> PlannedRow:
    own = planned.replaces.pk if planned.replaces else None
    others = [each.response for each in similar if each.kind == "contradiction" and each.response.pk != own]
    if not others:
        return planned
    kind = RowKind.CONTRADICTORY if planned.kind == RowKind.NEW else planned.kind
    return replace(planned, kind=kind, contradicts=tuple(others[:_SHOWN_ANSWERS]))


def _asked(row: FaqRow) -> list[str]:
    return [row.question, *row.phrasings][:MAX_QUESTIONS]


def _similar(agent: Agent, rows: Sequence[FaqRow], on_progress: OnProgress) -> dict[int, list[SimilarAnswer]]:
    """Answers of the agent to the question of a row, by its line. Raises the errors of the embedder and of the store."""
    # The first import of an agent has nothing to compare with: it embeds nothing here.
    if not rows or not LearnedResponse.objects.filter(agent=agent).exists():
        return {}
    found: dict[int, list[SimilarAnswer]] = {}
    waiting = waiting_phrasings(agent)
    for batch in batches(rows, _BATCH):
        texts = [text for row in batch for text in _asked(row)]
        vectors = iter(embedder().embed(texts, purpose=Purpose.QUERY))
        for row in batch:
            asked = _asked(row)
            own = list(islice(vectors, len(asked)))
            found[row.line] = find_similar(
                agent=agent, questions=asked, answer=row.answer, vectors=own, waiting=waiting
            )
        on_progress(len(found), len(rows))
    return found


def apply_import(plan: ImportPlan, *, chosen: Collection[int] = (), by: AbstractBaseUser | None = None) -> ImportReport:
    """Write the new rows and the `chosen` ones; what changed since is reported. The caller indexes `report.keys`."""
    wanted = plan.wanted(chosen)
    unchanged = len(plan.of_kind(RowKind.UNCHANGED))
    report = ImportReport(unchanged=unchanged, failed=list(plan.failed), left=plan.left(chosen))
    for batch in batches(wanted, _BATCH):
        _write_rows(plan.agent_id, batch, report, by)
    return report


def _write_rows(agent_id: int, batch: Sequence[PlannedRow], report: ImportReport, by: AbstractBaseUser | None) -> None:
    """Write a batch in one transaction, and add what became of it to the report."""
    with transaction.atomic():
        # Two imports of one agent take turns: no question gets two rows.
        agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
        known = _answers_to(agent, [planned.row.question for planned in batch])
        replaced = [planned.replaces.pk for planned in batch if planned.replaces]
        now = LearnedResponse.objects.select_for_update().order_by("pk").in_bulk(replaced)
        for planned in batch:
            try:
                replaced_row = _as_planned(planned, known, now)
                row, response = planned.row, replaced_row or LearnedResponse(agent=agent)
                response.question, response.answer, response.category = row.question, row.answer, row.category
                validate(response)
                save_learned(response, phrasings=row.phrasings, by=by, in_worker=False)
                report.keys.append(response.pk)
            except ApplicationError as error:
                report.failed.append(_failure(planned.row, error))
                continue
            if replaced_row is None:
                report.created += 1
            else:
                report.updated += 1


def _as_planned(
    planned: PlannedRow, known: Mapping[str, LearnedResponse], now: Mapping[int, LearnedResponse]
) -> LearnedResponse | None:
    """The answer to replace, if any; raises `AnswerRejectedError` where it has changed since the plan."""
    if (replaced := planned.replaces) is not None:
        response = now.get(replaced.pk)
        if response is None or response.revision != replaced.revision:
            reason = _("La réponse à « %(question)s » a changé depuis l’aperçu ; importez à nouveau.")
            raise AnswerRejectedError(reason % {"question": replaced.question})
        return response
    if normalised_question(planned.row.question) in known:
        raise AnswerRejectedError(_("Cette question a reçu une réponse depuis l’aperçu ; importez à nouveau."))
    return None


def _failure(row: FaqRow, error: ApplicationError) -> Failure:
    return Failure(row.line, row.question[:200], str(error.public_message))
