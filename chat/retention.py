"""What is deleted: old conversations, empty ones, surplus runs; times are in `agents.retention`."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents.models import OPEN_JOBS
from agents.retention import delete_in_batches
from chat.models import Conversation, GoldenRun, Turn, TurnStatus

#: Conversations deleted in one transaction.
BATCH = 50


def conversations_older_than(days: int) -> QuerySet[Conversation]:
    """Those whose last message is older, without a running answer."""
    running = Turn.objects.filter(
        conversation=OuterRef("pk"), status=TurnStatus.RUNNING, lease_expires_at__gt=timezone.now()
    )
    limit = timezone.now() - timedelta(days=days)
    return Conversation.objects.filter(~Exists(running), updated_at__lt=limit)


def empty_conversations() -> QuerySet[Conversation]:
    """Conversations in which nothing was asked within `EMPTY_CONVERSATION_HOURS`; a program may open thousands a day."""
    limit = timezone.now() - timedelta(hours=settings.EMPTY_CONVERSATION_HOURS)
    return Conversation.objects.filter(updated_at__lt=limit, turns=None, messages=None)


def purge(conversations: QuerySet[Conversation]) -> Iterator[int]:
    """Delete conversations in batches; yields the number of each. A killed deletion resumes at the next run."""
    yield from delete_in_batches(conversations.order_by("updated_at"), BATCH)


def old_conversations() -> QuerySet[Conversation]:
    """Conversations past their retention (`CONVERSATION_DAYS`); none where the site keeps all."""
    days = settings.CONVERSATION_DAYS
    return conversations_older_than(days) if days else Conversation.objects.none()


def surplus_runs() -> QuerySet[GoldenRun]:
    """Finished runs beyond the last `GOLDEN_RUNS_KEPT` of their set, or of their deployment's « what if »."""
    over = GoldenRun.objects.exclude(job__status__in=OPEN_JOBS)
    kept: set[int] = set()
    for golden_set, deployment in over.order_by().values_list("golden_set", "deployment").distinct():
        same = over.filter(golden_set=golden_set, deployment=deployment).order_by("-pk")
        kept.update(same.values_list("pk", flat=True)[: settings.GOLDEN_RUNS_KEPT])
    return over.exclude(pk__in=kept)
