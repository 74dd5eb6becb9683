"""Celery tasks of `knowledge`: nudges that call one verb each.

A job's truth is its row (`knowledge.indexing.jobs`), so no task retries a build: the reaper does.
"""

from celery import shared_task
from django.conf import settings

from knowledge.exceptions import VectorStoreUnavailableError
from knowledge.indexing import documents, jobs


@shared_task(
    soft_time_limit=settings.JOB_SOFT_LIMIT_SECONDS, time_limit=settings.JOB_HARD_LIMIT_SECONDS
)
def run_index_build(build_id: int) -> None:
    jobs.run_build(build_id)


@shared_task(
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)
def remove_points(agent_slug: str, ids: list[str]) -> None:
    documents.remove_points(agent_slug=agent_slug, ids=ids)


@shared_task(
    soft_time_limit=60,
    time_limit=90,
    autoretry_for=(VectorStoreUnavailableError,),
    retry_backoff=True,
    max_retries=8,
)
def drop_indexes(agent_slug: str) -> None:
    documents.drop_indexes(agent_slug=agent_slug)
