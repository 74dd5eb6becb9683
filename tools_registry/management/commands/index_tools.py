"""`index_tools`: bring the vectors of the tools' effective texts up to date; what did not change costs nothing."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from knowledge.management.terminal import errors_to_terminal, print_json, progress_bar
from tools_registry.index import sync_index


class Command(BaseCommand):
    help = "Index the descriptions and phrasings of every tool, as staff left them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--external",
            action="store_true",
            help="fill the vector store too, although no setting chooses the mode external yet",
        )
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        with errors_to_terminal(), progress_bar("text") as advance:
            report = sync_index(external=options["external"] or None, on_progress=advance)
        if options["json"]:
            print_json(self.stdout, asdict(report))
            return
        self.stdout.write(
            f"{report.tools} tools, {report.embedded} texts embedded, {report.reused} reused, "
            f"{report.removed} tools removed"
            + ("" if report.external is None else f", {report.external} in the vector store")
        )
