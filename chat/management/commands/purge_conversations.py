"""`purge_conversations --older-than DAYS`: delete old conversations for good."""

from argparse import ArgumentParser
from typing import Any

from tqdm import tqdm

from chat.retention import conversations_older_than, purge
from knowledge.management.terminal import JsonCommand, at_least_one


class Command(JsonCommand):
    help = (
        "Delete the conversations whose last message is older, with all that was kept of them. A "
        "conversation with a running answer is left for the next time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", type=at_least_one, required=True, metavar="DAYS")
        parser.add_argument("--dry-run", action="store_true", help="count, and delete nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        old = conversations_older_than(options["older_than"])
        found = old.count()
        deleted = 0
        if not options["dry_run"]:
            with tqdm(total=found, unit="conversation", disable=None) as bar:
                for count in purge(old):
                    deleted += count
                    bar.update(count)
        said = f"{found} conversations would be deleted" if options["dry_run"] else f"{deleted} conversations deleted"
        self.tell(options, {"found": found, "deleted": deleted}, [said])
