"""`import_memory [DEPLOYMENT] [FILE]`: add the entries of a SQLite file with the seed's table."""

from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from agents.models import Deployment
from faqs.memory_file import import_memory
from knowledge.management.terminal import JsonCommand, deployment_named


class Command(JsonCommand):
    help = "Add the entries of a SQLite file (MEMORY_DB_PATH unless one is named) to a deployment's memory."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("deployment", nargs="?", help="may be left out where there is only one")
        parser.add_argument("file", nargs="?", type=Path, help="default: MEMORY_DB_PATH")
        parser.add_argument("--to-review", action="store_true", help="let staff validate each entry")

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = _deployment(options["deployment"])
        path = options["file"] or Path(settings.MEMORY_DB_PATH)
        report = import_memory(deployment, path, to_review=options["to_review"])
        done = (
            f"{report.imported} entries imported into {deployment.slug} ({report.to_review} to review, "
            f"{report.answered} set aside for a validated answer, {report.embedded} embedded anew), {report.unchanged} already there"
        )
        skipped = [f"  skipped: row {row['item']}: {row['reason']}" for row in report.skipped]
        self.tell(options, {**asdict(report), "deployment": deployment.slug}, [done, *skipped])


def _deployment(slug: str | None) -> Deployment:
    if slug:
        return deployment_named(slug)
    found = list(Deployment.objects.select_related("agent").order_by("slug")[:20])
    if len(found) != 1:
        known = ", ".join(deployment.slug for deployment in found) or "none yet"
        raise CommandError(f"Name the deployment: import_memory DEPLOYMENT [FILE] (there are: {known}).")
    return found[0]
