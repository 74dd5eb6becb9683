"""Days as the figures count them (`chat.staff.figures`): by `TIME_ZONE`, of the moment at which a question was asked.

What changes a turn after its end, perhaps on a later day, says so here. Claims and ends of turns do not: the day that
runs is counted again anyway, and one with a turn that runs is not done with.
"""

import uuid
from datetime import date, datetime, time, timedelta

from django.utils import timezone

from chat.models import DayToCount, Turn


def day_of(moment: datetime) -> date:
    return timezone.localtime(moment, timezone.get_default_timezone()).date()


def start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=timezone.get_default_timezone())


def end_of(day: date) -> datetime:
    """The first moment of the next day; a day has 23 to 25 hours."""
    return start_of(day + timedelta(days=1))


def note_change(turn_id: uuid.UUID) -> None:
    """The day of this turn is to be counted again; in the transaction of the change."""
    for started_at in Turn.objects.filter(pk=turn_id).values_list("started_at", flat=True):
        DayToCount.objects.create(day=day_of(started_at))
