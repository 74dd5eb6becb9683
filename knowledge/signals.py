"""Keeps the index in step with the rows: a row that is saved or deleted enqueues a job that updates its points.

Receivers enqueue after the commit; an update that still waits covers the next one too. Changes that send no signal
(bulk updates, scripts) are found by the reconciliation. Until the points have followed, nothing deleted is served:
search confirms every hit in the database.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete, post_save, pre_delete
from django.dispatch import receiver

from agents import jobs
from agents.models import Agent, Deployment, JobKind, JobStatus, RuntimeSettings
from knowledge.errors import VectorStoreUnavailableError
from knowledge.indexing.jobs import enqueue_sync
from knowledge.indexing.points import point_ids, release_indexes
from knowledge.models import Category, Chunk, Document, DocumentStatus, IndexBuild

logger = logging.getLogger(__name__)

#: Fields of a document that its points carry, or that decide whether it has any.
_CARRIED = frozenset({"title", "category", "agent", "enabled"})


@receiver(pre_delete, sender=Chunk)
def remove_chunk_points(instance: Chunk, origin: Any, **_kwargs: Any) -> None:
    if _deleted_as(origin) is Chunk:
        _remove(instance.document.agent.slug, point_ids([instance]))


@receiver(pre_delete, sender=Document)
def remove_document_points(instance: Document, origin: Any, **_kwargs: Any) -> None:
    if _deleted_as(origin) is Document:
        chunks = instance.chunks.select_related("document", "category")
        _remove(instance.agent.slug, point_ids(chunks))


@receiver(post_delete, sender=Document)
def remove_document_file(instance: Document, **_kwargs: Any) -> None:
    if name := instance.file.name:
        transaction.on_commit(partial(instance.file.storage.delete, name))


@receiver(post_delete, sender=Agent)
def drop_agent_indexes(instance: Agent, **_kwargs: Any) -> None:
    transaction.on_commit(partial(_drop_indexes, instance.slug))


@receiver(post_save, sender=Chunk)
def update_chunk_points(instance: Chunk, created: bool, **_kwargs: Any) -> None:
    if not created:
        _update([instance.document])


@receiver(post_save, sender=Document)
def update_document_points(
    instance: Document, created: bool, update_fields: Collection[str] | None, **_kwargs: Any
) -> None:
    """Of an indexed document only: one that waits is about to be indexed."""
    carried = update_fields is None or _CARRIED & set(update_fields)
    if not created and carried and instance.status == DocumentStatus.INDEXED:
        _update([instance])


@receiver(post_save, sender=Category)
@receiver(pre_delete, sender=Category)
def update_category_points(instance: Category, **_kwargs: Any) -> None:
    named = Document.objects.filter(category=instance) | Document.objects.filter(chunks__category=instance)
    _update(named.select_related("agent").distinct())


@receiver(post_save, sender=Agent)
@receiver(post_save, sender=Deployment)
def complete_agent_indexes(instance: Agent | Deployment, created: bool, **_kwargs: Any) -> None:
    """A method that was not in use until now needs an index of its own; a new agent has nothing to put in one."""
    if isinstance(instance, Deployment):
        jobs.enqueue(JobKind.RECONCILE, key=str(instance.agent_id))
    elif not created:
        jobs.enqueue(JobKind.RECONCILE, key=str(instance.pk))


@receiver(post_save, sender=RuntimeSettings)
def look_at_the_calls_again(**_kwargs: Any) -> None:
    """Questions that wait for tomorrow's calls may have some today; the recovery tells a worker."""
    waiting = IndexBuild.objects.filter(kind=JobKind.QUESTIONS, status=JobStatus.QUEUED)
    waiting.update(not_before=None)


def _drop_indexes(agent_slug: str) -> None:
    try:
        names = release_indexes(agent_slug=agent_slug)
    except VectorStoreUnavailableError:
        logger.warning("The vector store is away; the indexes of %s are dropped later.", agent_slug)
        jobs.enqueue(JobKind.DROP_INDEXES, payload={"agent": agent_slug})
        return
    if names:
        jobs.enqueue(JobKind.DROP_INDEXES, payload={"names": list(names)})


def _remove(agent_slug: str, ids: list[str]) -> None:
    if ids:
        jobs.enqueue(JobKind.REMOVE_POINTS, payload={"agent": agent_slug, "ids": list(ids)})


def _update(documents: Iterable[Document]) -> None:
    by_agent: defaultdict[int, list[int]] = defaultdict(list)
    for document in documents:
        by_agent[document.agent_id].append(document.pk)
    for agent_id, keys in by_agent.items():
        transaction.on_commit(partial(_enqueue_update, agent_id, keys))


def _enqueue_update(agent_id: int, document_ids: list[int]) -> None:
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is not None:
        enqueue_sync(agent=agent, document_ids=document_ids)


def _deleted_as(origin: Any) -> type[Model] | None:
    """The model whose deletion was asked for; a cascade is handled once, where it started."""
    return origin.model if isinstance(origin, QuerySet) else type(origin)
