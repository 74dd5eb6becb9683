"""`sync_faqs [AGENT]`: write every point of the validated answers that is missing or stale."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faqs.answer_points import sync_learned
from faqs.models import LearnedResponse
from knowledge.management.terminal import agent_named, errors_to_terminal, print_json, progress_bar


class Command(BaseCommand):
    help = "Index validated answers again; what is in place already costs nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", nargs="?", help="all agents by default")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        keys = None
        if options["agent"]:
            rows = LearnedResponse.objects.filter(agent=agent_named(options["agent"]))
            keys = list(rows.values_list("pk", flat=True))
        with errors_to_terminal(), progress_bar("answer") as on_progress:
            report = sync_learned(keys, on_progress=on_progress)
        result = {"indexed": report.indexed, "withdrawn": report.withdrawn, "failed": report.failed}
        if options["json"]:
            print_json(self.stdout, result)
        else:
            self.stdout.write(f"{report.indexed} indexed, {report.withdrawn} withdrawn")
            for row in report.failed:
                self.stdout.write(f"  failed: {row['item']}: {row['reason']}")
        if report.failed:
            raise CommandError(f"{len(report.failed)} answers could not be indexed.")
