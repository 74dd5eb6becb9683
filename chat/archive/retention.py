"""What is forgotten, and when: old conversations, temporary chats past their time, links that expired.

A deletion takes everything along: turns with their traces, messages, tool rounds, verdicts, links, questions kept as
unanswered, and the mark of who taught an answer. A conversation with a turn that runs is left for the next time.
"""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents.retention import delete_in_batches
from chat.archive.sharing import drop_expired_links
from chat.models import Conversation, GoldenRun, RunStatus, Turn, TurnStatus

#: Conversations deleted in one transaction.
BATCH = 50


def conversations_older_than(days: int) -> QuerySet[Conversation]:
    """Those whose last message is older, temporary ones included."""
    limit = timezone.now() - timedelta(days=days)
    return _not_running(Conversation.objects.filter(updated_at__lt=limit))


def expired_chats() -> QuerySet[Conversation]:
    """Temporary chats past `TEMPORARY_CHAT_HOURS`."""
    limit = timezone.now() - timedelta(hours=settings.TEMPORARY_CHAT_HOURS)
    return _not_running(Conversation.objects.filter(is_temporary=True, updated_at__lt=limit))


def _not_running(conversations: QuerySet[Conversation]) -> QuerySet[Conversation]:
    running = Turn.objects.filter(
        conversation=OuterRef("pk"), status=TurnStatus.RUNNING, lease_expires_at__gt=timezone.now()
    )
    return conversations.filter(~Exists(running))


def purge(conversations: QuerySet[Conversation]) -> Iterator[int]:
    """Delete these conversations for good, in batches; yields how many went with each. Killed, it goes on next time."""
    yield from delete_in_batches(conversations.order_by("updated_at"), BATCH)


def old_conversations() -> QuerySet[Conversation]:
    """Those that the site keeps no longer (`CONVERSATION_DAYS`); none where it keeps them for good."""
    days = settings.CONVERSATION_DAYS
    return conversations_older_than(days) if days else Conversation.objects.none()


def forget_expired() -> int:
    """What a worker does every few seconds: temporary chats and links past their time; ends early when idle."""
    drop_expired_links()
    return sum(purge(expired_chats()))


def surplus_runs() -> QuerySet[GoldenRun]:
    """Finished runs beyond the last `GOLDEN_RUNS_KEPT` of their set, or of their deployment's « what if »."""
    over = GoldenRun.objects.exclude(status__in=(RunStatus.QUEUED, RunStatus.RUNNING))
    kept: set[int] = set()
    for golden_set, deployment in over.order_by().values_list("golden_set", "deployment").distinct():
        same = over.filter(golden_set=golden_set, deployment=deployment).order_by("-pk")
        kept.update(same.values_list("pk", flat=True)[: settings.GOLDEN_RUNS_KEPT])
    return over.exclude(pk__in=kept)
