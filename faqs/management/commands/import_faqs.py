"""`import_faqs AGENT FILE.csv`: validated answers from a file, indexed inline with a progress bar."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from faqs.exchange import import_csv
from faqs.indexing import sync_learned
from knowledge.management.terminal import (
    agent_named,
    errors_to_terminal,
    print_json,
    progress_bar,
)


class Command(BaseCommand):
    help = "Import validated answers from a CSV file (question, answer, category)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("file", metavar="FILE.csv", type=Path)
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        try:
            with options["file"].open("rb") as file:
                data = file.read(settings.FAQ_MAX_IMPORT_BYTES + 1)
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror or error}") from error
        with errors_to_terminal():
            report = import_csv(agent, data, in_worker=False)
            with progress_bar("answer") as on_progress:
                synced = sync_learned(report.keys, on_progress=on_progress)
        result = {
            "created": report.created,
            "updated": report.updated,
            "unchanged": report.unchanged,
            "indexed": synced.indexed,
            "failed": report.failed,
            "not_indexed": synced.failed,
        }
        if options["json"]:
            print_json(self.stdout, result)
        else:
            self.stdout.write(
                "{created} created, {updated} updated, {unchanged} unchanged, {indexed} indexed".format(
                    **result
                )
            )
            for row in report.failed:
                self.stdout.write(f"  line {row['line']}: {row['reason']}")
        if synced.failed:
            raise CommandError(
                f"{len(synced.failed)} answers are kept and wait to be indexed: "
                f"{synced.failed[0]['reason']} `manage.py sync_faqs` tries again."
            )
        if report.failed and not (report.created or report.updated or report.unchanged):
            raise CommandError("No row could be imported; the reasons are above.")
