"""Figures by hand: plain Python over every row, which shares nothing with `chat.staff.figures`."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from chat.models import Conversation, DailyCount, DailyStep, DailyUse, DayToCount, Feedback, Message, Turn, TurnStatus
from chat.staff.figures.daily import unpacked
from tests.factories import make_turn

SUMS = "turns llm_calls prompt_tokens completion_tokens timed milliseconds up down".split()


def local_day(moment: datetime) -> date:
    return moment.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


@dataclass
class ByHand:
    """The same figures three times: of turns, of steps, of what answers stand on."""

    counts: dict[tuple[Any, ...], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    steps: dict[tuple[Any, ...], list[int]] = field(default_factory=lambda: defaultdict(list))
    uses: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def add(self, turns: Iterable[Turn], *, deleted: bool = False) -> None:
        for turn in turns:
            conversation = turn.conversation
            key = (local_day(turn.started_at), conversation.deployment_id)
            status = turn.status
            if deleted and status in (TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL):
                status = TurnStatus.INTERRUPTED
            sums = self.counts[(*key, turn.answer_source, str(status), turn.language)]
            verdict = Feedback.objects.filter(turn=turn, withdrawn_at=None).first()
            is_timed = status == "done" and turn.run == 0 and turn.finished_at is not None
            sums["turns"] += 1
            sums["llm_calls"] += turn.llm_calls
            sums["prompt_tokens"] += turn.prompt_tokens
            sums["completion_tokens"] += turn.completion_tokens
            if is_timed and turn.finished_at is not None:
                sums["timed"] += 1
                sums["milliseconds"] += int((turn.finished_at - turn.started_at).total_seconds() * 1000)
            if verdict:
                sums[verdict.verdict] += 1
            for line in turn.trace:
                if "ms" in line:
                    self.steps[(*key, line["step"])].append(round(line["ms"] * 1000))
            if conversation.is_temporary or turn.status != "done":
                continue
            if turn.answer_source == "memory_guard":
                for entry in {line["entry"] for line in turn.trace if "entry" in line}:
                    self.uses[(*key, "memory", entry)] += 1
            for answer in Message.objects.filter(turn=turn, role="assistant", operation_id=None):
                for kind, name in (("passage", "chunk_id"), ("answer", "learned_id")):
                    for used in {source.get(name) for source in answer.sources} - {None}:
                        self.uses[(*key, kind, used)] += 1

    def as_plain(self) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        counts = {key: {name: sums[name] for name in SUMS} for key, sums in self.counts.items()}
        steps = {key: (len(took), sum(took), max(took)) for key, took in self.steps.items()}
        return counts, steps, dict(self.uses)


def as_counted() -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """What the rows of the counted days say, added up."""
    counts: dict[Any, dict[str, int]] = {}
    for count in DailyCount.objects.all():
        key = (count.day, count.deployment_id, count.source, count.status, count.language)
        sums = counts.setdefault(key, dict.fromkeys(SUMS, 0))
        for name in SUMS:
            sums[name] += getattr(count, name)
    steps: dict[Any, tuple[int, int, int]] = {}
    for row in DailyStep.objects.all():
        at = (row.day, row.deployment_id, row.step)
        times, total, most = steps.get(at, (0, 0, 0))
        steps[at] = (times + row.times, total + row.microseconds, max(most, row.slowest))
    uses: Counter[Any] = Counter()
    for use in DailyUse.objects.all():
        for used, count_ in unpacked(use.tally).tolist():
            uses[(use.day, use.deployment_id, use.kind, used)] += count_
    return counts, steps, dict(uses)


def past_turn(conversation: Conversation, asked_at: datetime, **columns: Any) -> Turn:
    """An ended turn of another day, with an answer that shows these `sources`; it took 1.5 s unless said otherwise.

    No question is asked in the past: a day that was counted already is told.
    """
    DayToCount.objects.create(day=local_day(asked_at))
    sources = columns.pop("sources", [])
    took = columns.pop("took", 1.5)
    turn = make_turn(conversation, **{"language": "fr", **columns})
    finished = asked_at + timedelta(seconds=took)
    Turn.objects.filter(pk=turn.pk).update(started_at=asked_at, finished_at=finished)
    Message.objects.create(
        conversation=conversation, turn=turn, role="assistant", content=str(uuid.uuid4()), sources=sources
    )
    return Turn.objects.get(pk=turn.pk)
