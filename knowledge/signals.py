"""Vector cleanup after deletions, which cascades and bulk actions of the admin do without calling any verb.

Each receiver only enqueues. Until the cleanup has run nothing stale is served, because search confirms every hit
against the database.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.exceptions import OperationalError
from django.db import transaction
from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete, pre_delete
from django.dispatch import receiver

from agents.models import Agent
from knowledge.indexing.documents import point_ids
from knowledge.models import Chunk, Document
from knowledge.tasks import drop_indexes, remove_points

logger = logging.getLogger(__name__)


@receiver(pre_delete, sender=Chunk)
def remove_chunk_points(instance: Chunk, origin: Any, **_kwargs: Any) -> None:
    if _deleted_as(origin) is Chunk:
        ids = point_ids([instance])
        _after_commit(partial(remove_points.delay, instance.document.agent.slug, ids))


@receiver(pre_delete, sender=Document)
def remove_document_points(instance: Document, origin: Any, **_kwargs: Any) -> None:
    if _deleted_as(origin) is Document:
        ids = point_ids(instance.chunks.select_related("document", "category"))
        _after_commit(partial(remove_points.delay, instance.agent.slug, ids))


@receiver(post_delete, sender=Document)
def remove_document_file(instance: Document, **_kwargs: Any) -> None:
    if name := instance.file.name:
        transaction.on_commit(partial(instance.file.storage.delete, name))


@receiver(post_delete, sender=Agent)
def drop_agent_indexes(instance: Agent, **_kwargs: Any) -> None:
    _after_commit(partial(drop_indexes.delay, instance.slug))


def _deleted_as(origin: Any) -> type[Model] | None:
    """The model whose deletion was asked for; a cascade is handled once, where it started."""
    return origin.model if isinstance(origin, QuerySet) else type(origin)


def _after_commit(enqueue: Callable[[], object]) -> None:
    def attempt() -> None:
        try:
            enqueue()
        except OperationalError:
            logger.warning(
                "The broker is unreachable; `qdrant_cleanup` and a rebuild tidy up later."
            )

    transaction.on_commit(attempt)
