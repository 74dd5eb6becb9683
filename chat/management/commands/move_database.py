"""`move_database URL`: every row of the site into another, empty database."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from chat.backup import move_database
from knowledge.management.terminal import errors_to_terminal, progress_bar


class Command(BaseCommand):
    help = (
        "Copy every row to the empty database at URL (postgres://user@host/name, the password in PGPASSWORD or ~/.pgpass): from SQLite to PostgreSQL. "
        "Stop the site first; what it writes meanwhile is not copied. A copy that was cut off leaves nothing: run it again."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("url")

    def handle(self, *args: Any, **options: Any) -> None:
        with errors_to_terminal(), progress_bar("row", disable=None) as advance:
            move_database(options["url"], advance)
        self.stdout.write("Moved: every table read again and the same. Set DATABASE_URL to it, then start the site.")
