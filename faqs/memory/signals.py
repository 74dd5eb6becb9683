"""What the memory learns from rows that change elsewhere: passages that change or go, entries deleted by cascades.

Nothing that is served depends on it: whether an entry's passages are what they were is asked again on its row. This moves the
entries to *to review*, once a transaction, after its commit.
"""

from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.signals import post_delete, post_save, pre_delete
from django.dispatch import receiver

from agents.models import Deployment
from faqs.memory.entries import record_deletions, review_other_agents, review_stale, writing
from faqs.memory.large import drop_index
from faqs.models import CachedResponse, MemoryShelf
from knowledge.models import Chunk

#: Ids in one `IN (…)`, below SQLite's oldest limit on variables.
_ID_BATCH = 500


class _ChangedChunks:
    """The passages that the open transaction has changed, as one of its commit hooks."""

    def __init__(self) -> None:
        self.chunk_ids: set[int] = set()

    def __call__(self) -> None:
        ids = sorted(self.chunk_ids)
        for start in range(0, len(ids), _ID_BATCH):
            review_stale(ids[start : start + _ID_BATCH])

    @classmethod
    def add(cls, chunk_id: int) -> None:
        hooks = connection.run_on_commit
        last = hooks[-1] if hooks else None
        # Joined only within the same savepoint: a hook goes with the savepoint that it was registered in.
        if (
            last is not None
            and isinstance(last[1], cls)
            and last[0] == set(connection.savepoint_ids)
        ):
            last[1].chunk_ids.add(chunk_id)
            return
        hook = cls()
        hook.chunk_ids.add(chunk_id)
        transaction.on_commit(hook)


@receiver(pre_delete, sender=Chunk)
def review_entries_of_deleted_chunk(instance: Chunk, **_kwargs: Any) -> None:
    _ChangedChunks.add(instance.pk)


@receiver(post_save, sender=Chunk)
def review_entries_of_changed_chunk(instance: Chunk, created: bool, **_kwargs: Any) -> None:
    if not created:
        _ChangedChunks.add(instance.pk)


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


@receiver(post_delete, sender=MemoryShelf)
def drop_collection_of_deleted_memory(instance: MemoryShelf, **_kwargs: Any) -> None:
    if instance.indexed_recipe:
        transaction.on_commit(partial(drop_index, instance.uuid))
