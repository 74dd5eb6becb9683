"""Validated answers from a file, in two steps: what each row would do, and doing it.

`plan_import` reads and writes nothing. `apply_import` writes the new rows, and what would replace an answer, or stand
beside another answer to the same question, only where a person chose it and that answer is still as the plan showed it.
A row that cannot be kept is reported with its line, and the rest is done.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from django.contrib.auth.models import AbstractBaseUser
from django.db import models, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents.errors import ApplicationError
from agents.models import Agent
from faqs.answers.duplicates import MAX_QUESTIONS, SimilarAnswer, find_similar
from faqs.answers.indexing import take_effect
from faqs.answers.neighbours import waiting_phrasings
from faqs.answers.texts import check_texts, clean_answer, one_line, other_phrasings
from faqs.answers.writing import save_learned, validate
from faqs.exceptions import AnswerRejectedError
from faqs.files.answers_csv import Failure, FaqRow, parse_csv
from faqs.memory.keys import normalised_question
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus, WrittenHow
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.report import OnProgress, no_progress
from knowledge.vectors.base import batches

#: Rows that are read and embedded, and that are written in one transaction, together.
_BATCH = 200
#: Other answers to its question that a row is shown beside.
_SHOWN_ANSWERS = 3


class RowKind(models.TextChoices):
    """What rows of a file would do. Those of `ASKED` are done where a person chose them."""

    NEW = "new", gettext_lazy("Nouvelles")
    CHANGED = "changed", gettext_lazy("Modifiées")
    CONTRADICTORY = "contradictory", gettext_lazy("Contradictoires")
    UNCHANGED = "unchanged", gettext_lazy("Inchangées")


ASKED = (RowKind.CHANGED, RowKind.CONTRADICTORY)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer of the agent as the plan found it."""

    id: int
    revision: int
    question: str
    answer: str
    category: str
    phrasings: tuple[str, ...]
    status: str


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """A row and what it would do: replace an answer, stand beside others to the same question, or neither."""

    row: FaqRow
    kind: RowKind = RowKind.NEW
    replaces: StoredAnswer | None = None
    contradicts: tuple[StoredAnswer, ...] = ()

    @property
    def old(self) -> StoredAnswer | None:
        """The answer that it is shown beside."""
        return self.replaces or next(iter(self.contradicts), None)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Every row of a file. `not_compared`: how many were not looked for among other answers, with the reason."""

    agent_id: int
    rows: tuple[PlannedRow, ...]
    failed: tuple[Failure, ...]
    not_compared: int = 0
    not_compared_reason: str = ""

    def of_kind(self, *kinds: RowKind) -> list[PlannedRow]:
        return [planned for planned in self.rows if planned.kind in kinds]


@dataclass(slots=True)
class ImportReport:
    """What became of the rows of a file. `left`: not chosen. `keys`: the answers whose points must follow."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: list[Failure] = field(default_factory=list)
    left: list[PlannedRow] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


def texts_of(state: StoredAnswer | FaqRow) -> tuple[str, str, str, tuple[str, ...]]:
    """Question, answer, category and phrasings, the phrasings in an order that both have."""
    return state.question, state.answer, state.category, tuple(sorted(state.phrasings))


# --- Planning --------------------------------------------------------------------------------------------------------


def plan_import(
    agent: Agent, data: bytes, *, max_compared: int | None = None, on_progress: OnProgress = no_progress
) -> ImportPlan:
    """What an import of this file would do; at most `max_compared` questions are compared by meaning.

    Raises `AnswerRejectedError` where nothing can be read.
    """
    read, failed = parse_csv(data)
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
    return _with_contradictions(plan, agent, max_compared, on_progress)


def _cleaned(row: FaqRow) -> FaqRow:
    question = one_line(row.question)
    return replace(
        row,
        question=question,
        answer=clean_answer(row.answer),
        phrasings=tuple(other_phrasings(question, row.phrasings)),
    )


def _planned(row: FaqRow, first: FaqRow, known: LearnedResponse | None) -> PlannedRow:
    """The first row of each question; a later one with another answer is a contradiction that a person must settle."""
    if first is not row:
        if first.answer != row.answer:
            reason = _("Même question qu’à la ligne %(line)d, avec une autre réponse.")
            raise AnswerRejectedError(reason % {"line": first.line})
        return PlannedRow(row, RowKind.UNCHANGED)
    if known is None:
        check_texts(row.question, row.answer, row.phrasings)
        return PlannedRow(row)
    stored = _stored(known)
    # Phrasings that stay keep their rows, and so their order: another order is no difference.
    if stored.status == LearnedStatus.VALID and texts_of(stored) == texts_of(row):
        return PlannedRow(row, RowKind.UNCHANGED, stored)
    check_texts(row.question, row.answer, row.phrasings)
    return PlannedRow(row, RowKind.CHANGED, stored)


def _answers_to(agent: Agent, questions: Sequence[str]) -> dict[str, LearnedResponse]:
    """The agent's answer to each question, by its key: of several a valid one, the one changed last."""
    keys = [normalised_question(question) for question in questions]
    rows = LearnedResponse.objects.filter(agent=agent, question_key__in=keys, kind=LearnedKind.FAQ).prefetch_related(
        "phrasings"
    )
    ranked = sorted(rows, key=lambda row: (row.status == LearnedStatus.VALID, row.updated_at))
    return {row.question_key: row for row in ranked}


def _stored(row: LearnedResponse) -> StoredAnswer:
    return StoredAnswer(
        id=row.pk,
        revision=row.revision,
        question=row.question,
        answer=row.answer,
        category=row.category,
        phrasings=tuple(phrasing.text for phrasing in row.phrasings.all()),
        status=row.status,
    )


# --- Other answers to the same question ------------------------------------------------------------------------------


def _with_contradictions(
    plan: ImportPlan, agent: Agent, max_compared: int | None, on_progress: OnProgress
) -> ImportPlan:
    """The plan with the rows whose question another validated answer of the agent answers otherwise."""
    todo = [planned.row for planned in plan.of_kind(RowKind.NEW, RowKind.CHANGED)]
    compared = _within(todo, max_compared)
    reason = ""
    similar: dict[int, list[SimilarAnswer]] = {}
    try:
        similar = _similar(agent, compared, on_progress)
    except ApplicationError as error:
        compared, reason = [], str(error.public_message)
    if not reason and len(compared) < len(todo):
        reason = _("Au plus %(limit)d questions sont comparées ici ; la commande import_faqs les compare toutes.") % {
            "limit": max_compared
        }
    answers = {each.response.pk: _stored(each.response) for found in similar.values() for each in found}
    return replace(
        plan,
        rows=tuple(_beside(planned, similar.get(planned.row.line, ()), answers) for planned in plan.rows),
        not_compared=len(todo) - len(compared),
        not_compared_reason=reason,
    )


def _beside(planned: PlannedRow, similar: Iterable[SimilarAnswer], answers: Mapping[int, StoredAnswer]) -> PlannedRow:
    own = planned.replaces.id if planned.replaces else None
    others = [answers[each.response.pk] for each in similar if each.response.pk in answers and each.response.pk != own]
    if not others:
        return planned
    kind = RowKind.CONTRADICTORY if planned.kind == RowKind.NEW else planned.kind
    return replace(planned, kind=kind, contradicts=tuple(others[:_SHOWN_ANSWERS]))


def _asked(row: FaqRow) -> list[str]:
    return [row.question, *row.phrasings][:MAX_QUESTIONS]


def _within(rows: Sequence[FaqRow], limit: int | None) -> Sequence[FaqRow]:
    """The first rows, as far as their questions and phrasings are no more than so many."""
    if limit is None:
        return rows
    counts = accumulate(len(_asked(row)) for row in rows)
    return rows[: sum(count <= limit for count in counts)]


def _similar(agent: Agent, rows: Sequence[FaqRow], on_progress: OnProgress) -> dict[int, list[SimilarAnswer]]:
    """Answers of the agent that contradict a row, by the row's line.

    Raises the errors of the embedder and of the vector store.
    """
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
            similar = find_similar(
                agent=agent,
                questions=asked,
                answer=row.answer,
                vectors=list(islice(vectors, len(asked))),
                waiting=waiting,
            )
            found[row.line] = [each for each in similar if each.kind == "contradiction"]
        on_progress(len(found), len(rows))
    return found


# --- Applying --------------------------------------------------------------------------------------------------------


def apply_import(
    plan: ImportPlan, *, chosen: Collection[int] = (), by: AbstractBaseUser | None = None, in_worker: bool = True
) -> ImportReport:
    """Write the new rows and, of those that a person is asked about, the `chosen` lines.

    What has changed in the database since the plan was made is not written and is reported. With `in_worker` off the
    caller calls `sync_learned(report.keys)`.
    """
    wanted = wanted_rows(plan, chosen)
    stale = changed_answers(wanted)
    report = ImportReport(
        unchanged=len(plan.of_kind(RowKind.UNCHANGED)),
        failed=list(plan.failed),
        left=[planned for planned in plan.of_kind(*ASKED) if planned.row.line not in chosen],
    )
    for batch in batches(wanted, _BATCH):
        write_rows(plan.agent_id, batch, stale, report, by)
    if in_worker and report.keys:
        with transaction.atomic():
            take_effect(report.keys)
    return report


def wanted_rows(plan: ImportPlan, chosen: Collection[int]) -> list[PlannedRow]:
    """What is to be written, in the order of the file: always the same for the same choice."""
    asked = [planned for planned in plan.of_kind(*ASKED) if planned.row.line in chosen]
    return sorted([*plan.of_kind(RowKind.NEW), *asked], key=lambda each: each.row.line)


def changed_answers(wanted: Iterable[PlannedRow]) -> set[int]:
    """Of the answers that rows stand beside, those that changed since the plan.

    To be looked up before anything is written: the import itself may withdraw what a row stands beside.
    """
    revisions = {answer.id: answer.revision for planned in wanted for answer in planned.contradicts}
    now: dict[int, int] = {}
    for keys in batches(revisions, _BATCH):
        rows = LearnedResponse.objects.filter(pk__in=keys)
        now.update(rows.values_list("pk", "revision"))
    return {key for key, revision in revisions.items() if now.get(key) != revision}


def write_rows(
    agent_id: int,
    batch: Sequence[PlannedRow],
    stale: Collection[int],
    report: ImportReport,
    by: AbstractBaseUser | None,
) -> None:
    """Write a batch in one transaction, and add what became of it to the report."""
    with transaction.atomic():
        # Two imports of one agent take turns: no question gets two rows.
        agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
        known = _answers_to(agent, [planned.row.question for planned in batch])
        replaced = [planned.replaces.id for planned in batch if planned.replaces]
        now = LearnedResponse.objects.select_for_update().order_by("pk").in_bulk(replaced)
        written: list[int] = []
        for planned in batch:
            try:
                response = _as_planned(planned, known, now, stale)
                written.append(_save(response or LearnedResponse(agent=agent), planned.row, by))
            except ApplicationError as error:
                report.failed.append(_failure(planned.row, error))
                continue
            if response is None:
                report.created += 1
            else:
                report.updated += 1
    report.keys += written


def _as_planned(
    planned: PlannedRow,
    known: Mapping[str, LearnedResponse],
    now: Mapping[int, LearnedResponse],
    stale: Collection[int],
) -> LearnedResponse | None:
    """The answer to replace, if there is one; raises `AnswerRejectedError` where the plan no longer says what is there."""
    for answer in planned.contradicts:
        if answer.id in stale:
            raise _changed(answer)
    if planned.replaces is None:
        if normalised_question(planned.row.question) in known:
            raise AnswerRejectedError(_("Cette question a reçu une réponse depuis l’aperçu ; importez à nouveau."))
        return None
    response = now.get(planned.replaces.id)
    if response is None or response.revision != planned.replaces.revision:
        raise _changed(planned.replaces)
    return response


def _changed(answer: StoredAnswer) -> AnswerRejectedError:
    return AnswerRejectedError(
        _("La réponse à « %(question)s » a changé depuis l’aperçu ; importez à nouveau.")
        % {"question": answer.question}
    )


def _save(response: LearnedResponse, row: FaqRow, by: AbstractBaseUser | None) -> int:
    response.question, response.answer, response.category = row.question, row.answer, row.category
    validate(response)
    save_learned(response, phrasings=row.phrasings, how=WrittenHow.IMPORTED, by=by, in_worker=False)
    return response.pk


def _failure(row: FaqRow, error: ApplicationError) -> Failure:
    return Failure(row.line, row.question[:200], str(error.public_message))
