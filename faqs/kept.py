"""What answers leave behind: entries of the memory that are too old, imports that are over."""

from collections.abc import Iterator

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from agents.effective import effective_config
from agents.models import Deployment
from agents.processes.upkeep import Kept, kept_rows
from faqs.files.previews import forgotten_previews
from faqs.memory.entries import delete_entries, expired_entries, kept_days, prunes_itself, review_overdue, review_stale
from faqs.models import CachedResponse, MemoryShelf


def _expired() -> Iterator[QuerySet[CachedResponse]]:
    """By deployment, where staff have not switched the deletion off."""
    with_memory = MemoryShelf.objects.values("deployment_id")
    for deployment in Deployment.objects.filter(pk__in=with_memory).select_related("agent"):
        config = effective_config(deployment)
        if prunes_itself(config):
            yield expired_entries(deployment.pk, kept_days(config))


def _prune() -> Iterator[int]:
    """What is overdue or outdated goes to review on the way."""
    review_overdue()
    review_stale()
    for rows in _expired():
        while keys := list(rows.values_list("pk", flat=True)[: settings.RETAIN_BATCH]):
            gone = delete_entries(CachedResponse.objects.filter(pk__in=keys))
            if not gone:
                break
            yield gone


KEPT: tuple[Kept, ...] = (
    Kept(
        "memory",
        _("réponses en mémoire"),
        "memory_max_age_days",
        lambda: sum(rows.count() for rows in _expired()),
        _prune,
    ),
    kept_rows("imports", _("imports en attente ou finis"), "FAQ_PREVIEW_SECONDS", forgotten_previews),
)
