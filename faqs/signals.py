"""What follows changes that call no verb of ours: deletions by cascade, passages that change, agents that come and go.

Answers whose passages changed go to *to review*, once a transaction, after its commit.
"""

from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.signals import post_delete, post_save, pre_delete, pre_save
from django.dispatch import receiver

from agents import jobs
from agents.models import Deployment, JobKind, Specialist
from faqs.answer_points import point_ids, unsettle
from faqs.answers import review_stale_answers
from faqs.memory import ID_BATCH, review_other_agents, review_stale, writing
from faqs.models import CachedResponse, LearnedResponse, Phrasing
from faqs.origins import passage_text
from knowledge.models import Chunk
from knowledge.vectors.base import batches


class _ChangedChunks:
    """The passages that the open transaction has changed, as they were before, as one of its commit hooks."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[int, str]] = {}

    def __call__(self) -> None:
        for batch in batches(sorted(self.before), ID_BATCH):
            review_stale(batch)
            review_stale_answers({key: self.before[key] for key in batch})

    @classmethod
    def add(cls, chunk: Chunk) -> None:
        hooks = connection.run_on_commit
        hook = hooks[-1][1] if hooks else None
        # Joined only within the same savepoint: a hook goes with the savepoint that it was registered in.
        if not isinstance(hook, cls) or hooks[-1][0] != set(connection.savepoint_ids):
            hook = cls()
            transaction.on_commit(hook)
        hook.before.setdefault(chunk.pk, (chunk.document_id, passage_text(chunk.content, chunk.knowledge_units)))


@receiver(pre_delete, sender=Chunk)
def review_answers_of_deleted_chunk(instance: Chunk, **_kwargs: Any) -> None:
    _ChangedChunks.add(instance)


@receiver(pre_save, sender=Chunk)
def review_answers_of_changed_chunk(instance: Chunk, **_kwargs: Any) -> None:
    for stored in Chunk.objects.filter(pk=instance.pk):
        _ChangedChunks.add(stored)


@receiver(post_save, sender=Specialist)
def settle_answers_again(instance: Specialist, created: bool, **_kwargs: Any) -> None:
    """Apply an agent's validated answers to the memory of a deployment that has just added the agent."""
    if created:
        answers = LearnedResponse.objects.filter(agent=instance.agent_id)
        transaction.on_commit(partial(unsettle, answers))


@receiver(pre_delete, sender=LearnedResponse)
def remove_response_points(instance: LearnedResponse, **_kwargs: Any) -> None:
    _remove_after_commit(instance.agent.slug, point_ids(instance))
    transaction.on_commit(partial(review_stale, learned_ids=[instance.pk]))


@receiver(pre_delete, sender=Phrasing)
def remove_phrasing_point(instance: Phrasing, origin: Any, **_kwargs: Any) -> None:
    """Remove a deleted phrasing's point; in a cascade the response's receiver does."""
    model = origin.model if isinstance(origin, QuerySet) else type(origin)
    if model is Phrasing:
        _remove_after_commit(instance.response.agent.slug, [str(instance.point_id)])


def _remove_after_commit(agent_slug: str, ids: list[str]) -> None:
    jobs.enqueue(JobKind.REMOVE_ANSWERS, payload={"agent": agent_slug, "ids": list(ids)})


@receiver(post_save, sender=Deployment)
def review_entries_of_another_agent(instance: Deployment, created: bool, **_kwargs: Any) -> None:
    if not created:
        transaction.on_commit(partial(review_other_agents, instance))


@receiver(post_delete, sender=CachedResponse)
def record_deleted_entry(instance: CachedResponse, origin: Any, **_kwargs: Any) -> None:
    """Record the deletion of an entry, unless its whole deployment is deleted."""
    asked_for = origin.model if isinstance(origin, QuerySet) else type(origin)
    if asked_for is CachedResponse and instance.pk is not None:
        with writing(instance.deployment_id) as memory:
            memory.purged_version = memory.version
