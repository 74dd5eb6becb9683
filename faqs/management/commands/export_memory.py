"""`export_memory [DEPLOYMENT] [FILE]`: the memory as a SQLite file with the seed's table."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from faqs.memory_file import export_memory
from faqs.models import CachedResponse
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = "Write the memory to a SQLite file (MEMORY_DB_PATH unless one is named)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment", nargs="?", help="only this one; all where none is named")
        parser.add_argument("file", nargs="?", type=Path, help="default: MEMORY_DB_PATH")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        entries = CachedResponse.objects.all()
        if options["deployment"]:
            entries = entries.filter(deployment=deployment_named(options["deployment"]))
        path = options["file"] or Path(settings.MEMORY_DB_PATH)
        with errors_to_terminal():
            exported = export_memory(entries, path)
        if options["json"]:
            print_json(self.stdout, {"exported": exported, "file": str(path)})
            return
        self.stdout.write(f"{exported} entries written to {path}")
