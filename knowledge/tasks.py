"""Celery tasks of `knowledge`: nudges that call one verb each.

A job's truth is its row (`knowledge.indexing.jobs`), so no task retries a build: its row says when it is tried again.
"""

import logging
from functools import partial

from celery import shared_task
from django.conf import settings

from agents.errors import ApplicationError
from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.indexing import sync
from knowledge.indexing.jobs import reconciliation, run

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


@shared_task(soft_time_limit=settings.JOB_SOFT_LIMIT_SECONDS, time_limit=settings.JOB_HARD_LIMIT_SECONDS)
def run_index_build(build_id: int) -> bool:
    """Whether there was anything to do: a message may come late, or twice."""
    try:
        return run.run_build(build_id, may_retry=True) is not None
    except ApplicationError as error:
        # Its row says so; Celery would print where.
        logger.warning("Build %s failed: %s", build_id, " ".join(str(error).split()))
        return True


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_indexes() -> None:
    reconciliation.reconcile_indexes()


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_agent(agent_id: int) -> None:
    reconciliation.reconcile_agent(agent_id)


@_deletion_task()
def remove_points(agent_slug: str, ids: list[str]) -> None:
    sync.remove_points(agent_slug=agent_slug, ids=ids)


@_deletion_task()
def drop_indexes(names: list[str]) -> None:
    sync.drop_collections(names)


@_deletion_task()
def drop_abandoned_indexes(agent_slug: str) -> None:
    sync.drop_abandoned_indexes(agent_slug=agent_slug)
