"""Figures by hand: plain Python over every turn, which shares nothing with `chat.staff.figures`."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from chat.models import Conversation, DailyCount, Feedback, Message, Turn
from tests.factories import make_turn

SUMS = "turns llm_calls prompt_tokens completion_tokens timed up down".split()


def local_day(moment: datetime) -> date:
    return moment.astimezone(ZoneInfo(settings.TIME_ZONE)).date()


def ending_of(turn: Turn, *, deleted: bool = False) -> str:
    if turn.status in ("running", "awaiting_approval"):
        return "interrupted" if deleted else "running"
    if turn.status == "done" and turn.answer_source:
        return turn.answer_source
    return "failed" if turn.status == "failed" else "interrupted"


class ByHand:
    def __init__(self) -> None:
        self.counts: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        self.milliseconds: Counter[tuple[Any, ...]] = Counter()

    def add(self, turns: Iterable[Turn], *, deleted: bool = False) -> None:
        for turn in turns:
            day, deployment = local_day(turn.started_at), turn.conversation.deployment_id
            key = (day, deployment, ending_of(turn, deleted=deleted), turn.language)
            sums = self.counts[key]
            sums["turns"] += 1
            for name in ("llm_calls", "prompt_tokens", "completion_tokens"):
                sums[name] += getattr(turn, name)
            if turn.status == "done" and turn.run == 0 and turn.finished_at is not None:
                sums["timed"] += 1
                self.milliseconds[key] += int((turn.finished_at - turn.started_at).total_seconds() * 1000)
            if verdict := Feedback.objects.filter(turn=turn, withdrawn_at=None).first():
                sums[verdict.verdict] += 1

    def as_plain(self) -> dict[Any, dict[str, int]]:
        return {key: {name: sums[name] for name in SUMS} for key, sums in self.counts.items()}


def as_counted() -> dict[Any, dict[str, int]]:
    """What the rows of the counted days say, added up."""
    counts: dict[Any, dict[str, int]] = {}
    for count in DailyCount.objects.exclude(turns=0):
        key = (count.day, count.deployment_id, count.ending, count.language)
        sums = counts.setdefault(key, dict.fromkeys(SUMS, 0))
        for name in SUMS:
            sums[name] += getattr(count, name)
    return counts


def past_turn(conversation: Conversation, asked_at: datetime, **columns: Any) -> Turn:
    """An ended turn of another day, with an answer that shows these `sources`; it took 1.5 s unless said otherwise.

    No question is asked in the past: a day that was counted already is told.
    """
    DailyCount.objects.create(day=local_day(asked_at))
    sources = columns.pop("sources", [])
    took = columns.pop("took", 1.5)
    turn = make_turn(conversation, **{"language": "fr", **columns})
    finished = asked_at + timedelta(seconds=took)
    Turn.objects.filter(pk=turn.pk).update(started_at=asked_at, finished_at=finished)
    Message.objects.create(
        conversation=conversation, turn=turn, role="assistant", content=str(uuid.uuid4()), sources=sources
    )
    return Turn.objects.get(pk=turn.pk)
