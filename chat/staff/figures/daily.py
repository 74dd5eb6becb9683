"""Days counted into rows that stay when their conversations go: what was asked, how it was answered, what that took.

A day is a pure function of its turns, read whole and written whole (`count_day`), so counting it twice changes nothing.
What is deleted is counted once more as it goes, into rows that no count of the day touches (`keep_counts`): together
they are what was ever asked. A day is due again when something of it changed later (`chat.thread.days`), or while it is
not over.

Turns that were stored are counted, each version of a question as one; tries, evaluations and replays store none. What a
temporary chat was given as its sources is not counted: nothing of its content outlives it.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import F, Min, QuerySet
from django.utils import timezone

from agents.database import short_write
from agents.jobs import Held
from chat.models import (
    OPEN_STATUSES,
    AnswerSource,
    Conversation,
    CountedDay,
    DailyCount,
    DailyStep,
    DailyUse,
    DayFigures,
    DayToCount,
    Message,
    Role,
    Turn,
    TurnStatus,
    UsedKind,
    Verdict,
)
from chat.thread.days import day_of, end_of, start_of
from knowledge.vectors.base import batches

#: A day that runs is counted again for who looks at the figures, at most so often, ...
FIGURES_FRESH_SECONDS = 60.0
#: ... and so many days at once: the others wait for the night, or for `manage.py count_days`.
FIGURES_DAYS_AT_ONCE = 3

logger = logging.getLogger(__name__)

#: The columns of `DailyCount` that are added up.
SUMS = ("turns", "llm_calls", "prompt_tokens", "completion_tokens", "timed", "milliseconds", "up", "down")
_STEP_CHARACTERS = 50
#: A day that is over is counted once more after this: a claim of its last moment may not have been stored yet.
GRACE = timedelta(hours=1)
_MODELS: tuple[type[DayFigures], ...] = (DailyCount, DailyStep, DailyUse)
#: Told after each day: how many of how many.
OnCounted = Callable[[int, int], None]


@dataclass(slots=True)
class DayTally:
    """One day's sums in the making."""

    counts: dict[tuple[int, str, str, str], list[int]] = field(
        default_factory=lambda: defaultdict(lambda: [0] * len(SUMS))
    )
    #: By deployment and step: how often, microseconds, those of the slowest.
    steps: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0]))
    uses: dict[tuple[int, str], dict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    is_open: bool = False

    def rows(self, day: date, *, is_past: bool) -> Iterator[DayFigures]:
        for (deployment, source, status, language), sums in self.counts.items():
            yield DailyCount(
                day=day,
                deployment_id=deployment,
                is_past=is_past,
                source=source,
                status=status,
                language=language,
                **dict(zip(SUMS, sums, strict=True)),
            )
        for (deployment, step), (times, microseconds, slowest) in self.steps.items():
            yield DailyStep(
                day=day,
                deployment_id=deployment,
                is_past=is_past,
                step=step,
                times=times,
                microseconds=microseconds,
                slowest=slowest,
            )
        for (deployment, kind), used in self.uses.items():
            tally = packed(used)
            yield DailyUse(day=day, deployment_id=deployment, is_past=is_past, kind=kind, tally=tally)

    def absorb(self, rows: Iterable[DayFigures]) -> None:
        """Add what stored rows say."""
        for row in rows:
            match row:
                case DailyCount():
                    sums = self.counts[row.deployment_id, row.source, row.status, row.language]
                    for at, name in enumerate(SUMS):
                        sums[at] += getattr(row, name)
                case DailyStep():
                    self._took(row.deployment_id, row.step, row.times, row.microseconds, row.slowest)
                case DailyUse():
                    used = self.uses[row.deployment_id, row.kind]
                    for key, count in unpacked(row.tally).tolist():
                        used[key] += count

    def _took(self, deployment: int, step: str, *more: int) -> None:
        taken = self.steps[deployment, step]
        taken[:] = [taken[0] + more[0], taken[1] + more[1], max(taken[2], more[2])]

    def add_turn(self, row: dict[str, Any]) -> None:
        """A row of `_turns`. One that was deleted while it ran is taken for interrupted."""
        status, deployment = row["status"], row["conversation__deployment_id"]
        self.is_open |= status in OPEN_STATUSES
        # A run that was begun again waited for somebody in between.
        took = 0
        is_timed = status == TurnStatus.DONE and row["finished_at"] is not None and not row["run"]
        if is_timed:
            took = max(0, (row["finished_at"] - row["started_at"]) // timedelta(milliseconds=1))
        verdict = None if row["feedback__withdrawn_at"] else row["feedback__verdict"]
        sums = self.counts[deployment, row["answer_source"], status, row["language"]]
        more = (
            1,
            row["llm_calls"],
            row["prompt_tokens"],
            row["completion_tokens"],
            int(is_timed),
            took,
            int(verdict == Verdict.UP),
            int(verdict == Verdict.DOWN),
        )
        for at, count in enumerate(more):
            sums[at] += count
        for line in _lines(row["trace"]):
            step, milliseconds = line.get("step"), line.get("ms")
            if isinstance(step, str) and isinstance(milliseconds, int | float):
                microseconds = max(0, round(1000 * milliseconds))
                self._took(deployment, step[:_STEP_CHARACTERS], 1, microseconds, microseconds)
        if row["answer_source"] == AnswerSource.MEMORY_GUARD and not row["conversation__is_temporary"]:
            entries = {line.get("entry") for line in _lines(row["trace"])}
            self._use(deployment, UsedKind.MEMORY, entries)

    def add_sources(self, deployment: int, sources: list[dict[str, Any]]) -> None:
        """What one answer shows as its sources: each counts once."""
        shown = [source for source in sources if isinstance(source, dict)]
        self._use(deployment, UsedKind.PASSAGE, {source.get("chunk_id") for source in shown})
        self._use(deployment, UsedKind.ANSWER, {source.get("learned_id") for source in shown})

    def _use(self, deployment: int, kind: UsedKind, keys: set[Any]) -> None:
        if found := {key for key in keys if isinstance(key, int)}:
            used = self.uses[deployment, kind.value]
            for key in found:
                used[key] += 1


def packed(used: dict[int, int]) -> bytes:
    return np.array(sorted(used.items()), dtype="<i8").tobytes()


def unpacked(tally: bytes | memoryview) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows of a key and its count."""
    return np.frombuffer(bytes(tally), dtype="<i8").reshape(-1, 2)


def _lines(trace: object) -> list[dict[str, Any]]:
    return [line for line in trace if isinstance(line, dict)] if isinstance(trace, list) else []


_TURN = (
    "conversation__deployment_id",
    "conversation__is_temporary",
    "answer_source",
    "status",
    "language",
    "llm_calls",
    "prompt_tokens",
    "completion_tokens",
    "run",
    "started_at",
    "finished_at",
    "trace",
    "feedback__verdict",
    "feedback__withdrawn_at",
)


def _tallied(turns: QuerySet[Turn], answers: QuerySet[Message]) -> dict[date, DayTally]:
    """The days of these turns, and of these messages: answers are taken of kept conversations and ended turns only."""
    days: dict[date, DayTally] = defaultdict(DayTally)
    for row in turns.order_by().values(*_TURN).iterator(settings.FIGURES_BATCH):
        days[day_of(row["started_at"])].add_turn(row)
    shown = answers.filter(
        role=Role.ASSISTANT, operation_id=None, turn__status=TurnStatus.DONE, conversation__is_temporary=False
    ).order_by()
    columns = ("turn__started_at", "conversation__deployment_id", "sources")
    for started_at, deployment, sources in shown.values_list(*columns).iterator(settings.FIGURES_BATCH):
        days[day_of(started_at)].add_sources(deployment, sources)
    return days


def tally_of(day: date) -> DayTally:
    """What the rows of the conversations that exist say of a day."""
    within = (start_of(day), end_of(day))
    turns = Turn.objects.filter(started_at__gte=within[0], started_at__lt=within[1])
    answers = Message.objects.filter(turn__started_at__gte=within[0], turn__started_at__lt=within[1])
    return _tallied(turns, answers).get(day) or DayTally()


def count_day(day: date) -> bool:
    """Count a day anew; `False` where another process did meanwhile, whose count stands.

    What changes while it is read leaves a mark that this count has not seen, so the day stays due.
    """
    known, _is_new = CountedDay.objects.get_or_create(day=day)
    marks = list(DayToCount.objects.filter(day=day).values_list("pk", flat=True))
    now, tally = timezone.now(), tally_of(day)
    with short_write():
        unchanged = CountedDay.objects.filter(day=day, version=known.version)
        if not unchanged.update(version=F("version") + 1, counted_at=now, is_open=tally.is_open):
            return False
        for model in _MODELS:
            model._default_manager.filter(day=day, is_past=False).delete()
        _write(day, tally, is_past=False)
        _fold(day)
        for batch in batches(marks, settings.FIGURES_BATCH):
            DayToCount.objects.filter(pk__in=batch).delete()
    return True


def _write(day: date, tally: DayTally, *, is_past: bool) -> None:
    rows: dict[type[DayFigures], list[DayFigures]] = defaultdict(list)
    for row in tally.rows(day, is_past=is_past):
        rows[type(row)].append(row)
    for model, found in rows.items():
        model._default_manager.bulk_create(found, batch_size=settings.FIGURES_BATCH)


def _fold(day: date) -> None:
    """Of the rows of deleted conversations, one for each kind: those that are added meanwhile are left for the next
    time.
    """
    past = [row for model in _MODELS for row in model._default_manager.filter(day=day, is_past=True)]
    tally = DayTally()
    tally.absorb(past)
    if len(past) == len(tally.counts) + len(tally.steps) + len(tally.uses):
        return
    for model in _MODELS:
        keys = [row.pk for row in past if isinstance(row, model)]
        for batch in batches(keys, settings.FIGURES_BATCH):
            model._default_manager.filter(pk__in=batch).delete()
    _write(day, tally, is_past=True)


def keep_counts(conversation: Conversation) -> None:
    """Count a conversation that is about to be deleted for good; in the transaction of its deletion."""
    turns = Turn.objects.filter(conversation=conversation)
    answers = Message.objects.filter(conversation=conversation, turn__isnull=False)
    for day, tally in _tallied(turns, answers).items():
        _write(day, _ended(tally), is_past=True)
        DayToCount.objects.create(day=day)


def _ended(tally: DayTally) -> DayTally:
    """A turn that is deleted while it runs ends there."""
    counts = tally.counts
    for key in [key for key in counts if key[2] in OPEN_STATUSES]:
        deployment, source, _status, language = key
        ended = counts[deployment, source, TurnStatus.INTERRUPTED.value, language]
        ended[:] = [sum(pair) for pair in zip(ended, counts.pop(key), strict=True)]
    return tally


def due_days(*, unless_counted_since: datetime | None = None) -> list[date]:
    """The days to count, newest first; without those that were counted since that moment."""
    asked = Turn.objects.aggregate(first=Min("started_at"))["first"]
    today = timezone.now()
    days: set[date] = set(DayToCount.objects.values_list("day", flat=True).distinct())
    counted = {row.day: row for row in CountedDay.objects.all()}
    if asked is not None:
        first, last = day_of(asked), day_of(today)
        days |= {first + timedelta(days=at) for at in range((last - first).days + 1)} - set(counted)
    for day, row in counted.items():
        if row.counted_at is None or row.is_open or row.counted_at < end_of(day) + GRACE:
            days.add(day)
    if unless_counted_since is not None:
        fresh = {
            day for day, row in counted.items() if row.counted_at is not None and row.counted_at >= unless_counted_since
        }
        days -= fresh
    return sorted(days, reverse=True)


def count_days(held: Held) -> None:
    """The nightly job."""
    count_due(held.progress)


def count_due(on_counted: OnCounted = lambda _done, _total: None) -> int:
    """Count every day that is due; how many. May be killed at any moment and run again."""
    return _count(due_days(), on_counted)


def count_anew(on_counted: OnCounted = lambda _done, _total: None) -> int:
    """Count every day from the first question on, due or not."""
    days = set(due_days()) | set(CountedDay.objects.values_list("day", flat=True))
    return _count(sorted(days, reverse=True), on_counted)


def _count(days: list[date], on_counted: OnCounted) -> int:
    for done, day in enumerate(days, start=1):
        count_day(day)
        on_counted(done, len(days))
    return len(days)


def bring_up_to_date() -> int:
    """What a page does before it reads: the newest due days, a few at most; returns how many are still to be counted."""
    since = timezone.now() - timedelta(seconds=FIGURES_FRESH_SECONDS)
    days = due_days(unless_counted_since=since)
    _count(days[:FIGURES_DAYS_AT_ONCE], lambda _done, _total: None)
    return max(0, len(days) - FIGURES_DAYS_AT_ONCE)
