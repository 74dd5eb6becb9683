"""`export_memory [DEPLOYMENT] [FILE]`: the memory as a SQLite file with the seed's table."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings

from faqs.memory_file import export_memory
from faqs.models import CachedResponse
from knowledge.management.terminal import JsonCommand, deployment_named


class Command(JsonCommand):
    help = "Write the memory to a SQLite file (MEMORY_DB_PATH unless one is named)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("deployment", nargs="?", help="only this one; all where none is named")
        parser.add_argument("file", nargs="?", type=Path, help="default: MEMORY_DB_PATH")

    def handle(self, *args: Any, **options: Any) -> None:
        entries = CachedResponse.objects.all()
        if options["deployment"]:
            entries = entries.filter(deployment=deployment_named(options["deployment"]))
        path = options["file"] or Path(settings.MEMORY_DB_PATH)
        exported = export_memory(entries, path)
        self.tell(options, {"exported": exported, "file": str(path)}, [f"{exported} entries written to {path}"])
