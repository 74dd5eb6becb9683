"""Vector cleanup after deletions, which cascades and bulk actions of the admin do without calling any verb.

Each receiver only enqueues. Nothing that was deleted is served meanwhile: every hit is confirmed against its row.
"""

import logging
from typing import Any

from celery.exceptions import OperationalError
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from faqs.indexing import point_ids
from faqs.models import LearnedResponse, Phrasing
from faqs.tasks import remove_learned_points

logger = logging.getLogger(__name__)


@receiver(pre_delete, sender=LearnedResponse)
def remove_response_points(instance: LearnedResponse, **_kwargs: Any) -> None:
    _remove_after_commit(instance.agent.slug, point_ids(instance))


@receiver(pre_delete, sender=Phrasing)
def remove_phrasing_point(instance: Phrasing, origin: Any, **_kwargs: Any) -> None:
    """In a cascade the response's own receiver takes its phrasings along."""
    model = origin.model if isinstance(origin, QuerySet) else type(origin)
    if model is Phrasing:
        _remove_after_commit(instance.response.agent.slug, [str(instance.point_id)])


def _remove_after_commit(agent_slug: str, ids: list[str]) -> None:
    def enqueue() -> None:
        try:
            remove_learned_points.delay(agent_slug, ids)
        except OperationalError:
            logger.warning("The broker is unreachable; `sync_faqs` and a rebuild tidy up later.")

    transaction.on_commit(enqueue)
