"""The Celery task that closes loops, and who asks for it: `faqs.answers.indexing` when answers have taken effect, and
the reaper.

The truth is on the rows (`LearnedResponse.loops_revision`): a lost message is sent again, a doubled one finds nothing
to do.
"""

from collections.abc import Sequence
from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.processes.asking import ask_worker
from chat.staff.quality import loops
from faqs.models import LearnedResponse

#: Answers that one look of the reaper asks for.
_REAPED = 200
#: What a busy worker did not come to is asked for again: messages do not pile up.
_EXPIRES_SECONDS = 300.0


@shared_task(soft_time_limit=600, time_limit=660)
def close_loops(learned_ids: list[int]) -> None:
    """Of these answers, those that have not been tried since their last change; and what deleted ones leave open."""
    waiting = LearnedResponse.objects.with_open_loops().filter(pk__in=learned_ids)
    loops.close_loops(list(waiting.values_list("pk", flat=True)))


def enqueue_loops(learned_ids: Sequence[int]) -> None:
    """Once these changes are committed, have a worker close what they answer."""
    keys = list(learned_ids)
    transaction.on_commit(lambda: _nudge(keys))


def reap_loops() -> int:
    """Ask again for answers that nobody has tried; returns how many. One short query when there is none."""
    earlier = timezone.now() - timedelta(seconds=settings.JOB_REAP_SECONDS)
    missed = LearnedResponse.objects.with_open_loops().filter(indexed_at__lt=earlier)
    keys = list(missed.order_by("indexed_at").values_list("pk", flat=True)[:_REAPED])
    if keys:
        _nudge(keys)
    return len(keys)


def _nudge(keys: list[int]) -> None:
    waiting = f"the loops of {len(keys)} answers wait"
    ask_worker(close_loops, keys, otherwise=waiting, expires=_EXPIRES_SECONDS)
