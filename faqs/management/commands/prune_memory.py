"""`prune_memory [DEPLOYMENT]`: delete what is too old, and send to review what staff have to look at."""

from argparse import ArgumentParser
from typing import Any

from agents.effective import effective_config
from agents.models import Deployment
from faqs.memory import delete_entries, expired_entries, retention_days, review_overdue, review_stale
from faqs.models import DeploymentMemory
from knowledge.management.terminal import JsonCommand, at_least_one, deployment_named


class Command(JsonCommand):
    help = "Delete the answers in memory that are too old; move overdue and outdated ones to review."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("deployment", nargs="?", help="only this one; all where none is named")
        parser.add_argument("--max-age-days", type=at_least_one, help="default: each deployment's setting")

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = sum(
            delete_entries(
                expired_entries(deployment.pk, options["max_age_days"] or retention_days(effective_config(deployment)))
            )
            for deployment in _deployments(options["deployment"])
        )
        moved = review_overdue() + review_stale()
        lines = [f"{deleted} entries deleted, {moved} moved to review"]
        self.tell(options, {"deleted": deleted, "to_review": moved}, lines)


def _deployments(slug: str | None) -> list[Deployment]:
    if slug:
        return [deployment_named(slug)]
    with_memory = DeploymentMemory.objects.values("deployment_id")
    return list(Deployment.objects.filter(pk__in=with_memory).select_related("agent"))
