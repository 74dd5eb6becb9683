"""`restore FILE`: a file of `backup` into an empty site."""

import argparse
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from chat.backup import restore
from knowledge.management.terminal import errors_to_terminal, progress_bar


class Command(BaseCommand):
    help = "Fill an empty site with a file of `backup`, of the same version. A site that has data is left alone."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--identity", type=Path, help="the file of age's secret key that the back-up was made for")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        with errors_to_terminal(), progress_bar("row", disable=None) as advance:
            restore(options["file"], advance, options["identity"])
        self.stdout.write("Restored: every table read again and the same. Where SECRET_KEY is set, set the old site's.")
        self.stdout.write("With Qdrant, now: manage.py rebuild_agent_index AGENT, for each agent.")
