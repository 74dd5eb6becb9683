"""`purge_conversations --older-than DAYS`: delete old conversations for good, also temporary chats and links past their time."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand
from tqdm import tqdm

from chat.retention import conversations_older_than, expired_chats, expired_links, purge
from knowledge.management.terminal import print_json


class Command(BaseCommand):
    help = (
        "Delete the conversations whose last message is older, with all that was kept of them; also temporary chats "
        "and shared links past their time. A conversation with a running answer is left for the next time."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--older-than", type=_days, required=True, metavar="DAYS")
        parser.add_argument("--dry-run", action="store_true", help="count, and delete nothing")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        old, temporary = conversations_older_than(options["older_than"]), expired_chats()
        found = (old | temporary).distinct().count()
        deleted, links = 0, 0
        if not options["dry_run"]:
            with tqdm(total=found, unit="conversation", disable=None) as bar:
                for rows in (old, temporary):
                    for count in purge(rows):
                        deleted += count
                        bar.update(count)
            links, _rows = expired_links().delete()
        if options["json"]:
            print_json(self.stdout, {"found": found, "deleted": deleted, "links": links})
        elif options["dry_run"]:
            self.stdout.write(f"{found} conversations would be deleted")
        else:
            self.stdout.write(f"{deleted} conversations deleted, {links} expired links deleted")


def _days(text: str) -> int:
    days = int(text)
    if days < 1:
        raise argparse.ArgumentTypeError("at least one day")
    return days
