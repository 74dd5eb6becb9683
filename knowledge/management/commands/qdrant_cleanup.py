"""`qdrant_cleanup`: drop generations that no alias, no running build and no rollback needs."""

from argparse import ArgumentParser
from typing import Any

from knowledge.indexing.rebuild import unused_generations
from knowledge.management.terminal import JsonCommand
from knowledge.vectors.base import vector_store


class Command(JsonCommand):
    help = "Drop old generations of the indexes; the one that --rollback goes back to is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="list them, drop nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        store = vector_store()
        dropped = unused_generations()
        if not options["dry_run"]:
            for info in dropped:
                store.drop(info.name)
        points = sum(info.points for info in dropped)
        verb = "would be dropped" if options["dry_run"] else "dropped"
        self.tell(
            options,
            {"dropped": [info.name for info in dropped], "points": points, "dry_run": options["dry_run"]},
            [
                *(f"{info.points:>9}  {info.name}" for info in dropped),
                f"{len(dropped)} collections with {points} points {verb}.",
            ],
        )
