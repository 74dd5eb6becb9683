"""Celery tasks of `knowledge`: nudges that call one verb each.

A job's truth is its row (`knowledge.indexing.jobs`), so no task retries a build: its row says when it is tried again.
"""

from celery import shared_task
from django.conf import settings

from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.indexing import jobs, sync


@shared_task(
    soft_time_limit=settings.JOB_SOFT_LIMIT_SECONDS, time_limit=settings.JOB_HARD_LIMIT_SECONDS
)
def run_index_build(build_id: int) -> None:
    jobs.run_build(build_id, may_retry=True)


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_indexes() -> None:
    jobs.reconcile_indexes()


@shared_task(soft_time_limit=600, time_limit=660)
def reconcile_agent(agent_id: int) -> None:
    jobs.reconcile_agent(agent_id)


@shared_task(
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)
def remove_points(agent_slug: str, ids: list[str]) -> None:
    sync.remove_points(agent_slug=agent_slug, ids=ids)


@shared_task(
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)
def drop_indexes(names: list[str]) -> None:
    sync.drop_collections(names)


@shared_task(
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)
def drop_abandoned_indexes(agent_slug: str) -> None:
    sync.drop_abandoned_indexes(agent_slug=agent_slug)
