"""What the memory learns from rows that change elsewhere: other agents of a deployment, entries deleted by cascades."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from agents.models import Deployment
from faqs.memory.entries import record_deletions, review_other_agents, writing
from faqs.models import CachedResponse


@receiver(post_save, sender=Deployment)
def review_entries_of_another_agent(instance: Deployment, created: bool, **_kwargs: Any) -> None:
    if not created:
        transaction.on_commit(partial(review_other_agents, instance))


@receiver(post_delete, sender=CachedResponse)
def record_deleted_entry(instance: CachedResponse, origin: Any, **_kwargs: Any) -> None:
    """Deleted by itself, not with its deployment, whose shelf goes too."""
    asked_for = origin.model if isinstance(origin, QuerySet) else type(origin)
    if asked_for is CachedResponse and instance.pk is not None:
        with writing(instance.deployment_id) as shelf:
            record_deletions(shelf, [instance.pk])
