"""`index_memory [DEPLOYMENT]`: bring the collections of large memories to their rows, or make them anew."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faqs.memory.large import large_memories, leave_index, memory_store, rebuild_index, repair_index
from faqs.models import MemoryShelf
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = (
        "Look a memory up in a Qdrant collection instead of an array: fill the collection, or repair it. "
        "Without a deployment: all memories that are large or have a collection."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment", nargs="?", help="only this one, whatever its size")
        parser.add_argument("--rebuild", action="store_true", help="make the collections anew")
        parser.add_argument("--leave", action="store_true", help="back to the array")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        if memory_store() is None:
            raise CommandError("No Qdrant is configured: set QDRANT_URL. Memories stay in arrays.")
        reports = []
        with errors_to_terminal():
            for shelf in _shelves(options["deployment"]):
                if options["leave"]:
                    leave_index(shelf)
                    continue
                report = rebuild_index(shelf) if options["rebuild"] else repair_index(shelf)
                reports.append({"deployment": shelf.deployment.slug, **asdict(report)})
        if options["json"]:
            print_json(self.stdout, {"memories": reports})
            return
        for row in reports:
            what = "made anew" if row["rebuilt"] else "brought to the rows"
            self.stdout.write(f"{row['deployment']}: {what}, {row['written']} points written, {row['removed']} removed")
        self.stdout.write(f"{len(reports)} collections.")


def _shelves(slug: str | None) -> list[MemoryShelf]:
    if slug:
        shelf, _created = MemoryShelf.objects.get_or_create(deployment=deployment_named(slug))
        return [shelf]
    indexed = MemoryShelf.objects.exclude(indexed_recipe="").select_related("deployment")
    grown = [shelf for shelf, _entries in large_memories() if not shelf.indexed_recipe]
    return [*indexed, *grown]
