"""Celery tasks of `knowledge`: nudges that call one verb each."""

import logging
from functools import partial

from celery import shared_task

from knowledge.errors import VectorStoreUnavailableError
from knowledge.indexing import jobs, sync

logger = logging.getLogger(__name__)

#: Of tasks that only delete from the vector store: a store that is away is tried again later.
_deletion_task = partial(
    shared_task,
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_indexes() -> None:
    jobs.reconcile_indexes()


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_agent(agent_id: int) -> None:
    jobs.reconcile_agent(agent_id)


@_deletion_task()
def remove_points(agent_slug: str, ids: list[str]) -> None:
    sync.remove_points(agent_slug=agent_slug, ids=ids)


@_deletion_task()
def drop_indexes(names: list[str]) -> None:
    sync.drop_collections(names)


@_deletion_task()
def drop_abandoned_indexes(agent_slug: str) -> None:
    sync.drop_abandoned_indexes(agent_slug=agent_slug)
