"""Celery tasks of `faqs`: nudges that call one verb each.

The truth is on the rows of `LearnedResponse`; what fails is tried again by the reaper, so no task retries an indexing.
"""

from celery import shared_task

from agents.models import Agent
from faqs import answer_points
from faqs.models import LearnedResponse
from knowledge.errors import VectorStoreUnavailableError


@shared_task(soft_time_limit=600, time_limit=660)
def sync_learned(keys: list[int]) -> None:
    waiting = LearnedResponse.objects.unsettled().filter(pk__in=keys)
    answer_points.sync_learned(list(waiting.values_list("pk", flat=True)))
    answer_points.compare_with_index(Agent.objects.filter(learned_responses__in=keys).distinct())


@shared_task(
    soft_time_limit=60, time_limit=90, autoretry_for=(VectorStoreUnavailableError,), retry_backoff=True, max_retries=8
)
def remove_learned_points(agent_slug: str, ids: list[str]) -> None:
    answer_points.remove_learned_points(agent_slug=agent_slug, ids=ids)
    answer_points.compare_with_index(Agent.objects.filter(slug=agent_slug))
