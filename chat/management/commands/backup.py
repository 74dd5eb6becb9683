"""`backup FILE`: the running site in one file."""

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from chat.backup import backup
from knowledge.management.terminal import errors_to_terminal, progress_bar


class Command(BaseCommand):
    help = (
        "Write the running site into one new file: every row, the documents, the key that signs sessions. The file "
        "holds personal data and is readable by its owner alone. Points of a Qdrant server are not in it."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--recipient", action="append", default=[], help="public key of age (age1…) to encrypt it to"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with errors_to_terminal(), progress_bar("row", disable=None) as advance:
            missing = backup(options["file"], advance, options["recipient"])
        for name in missing:
            self.stderr.write(f"The file of a document is missing: {name}")
        self.stdout.write(
            f"{options['file']}: every table read again and the same, {len(missing)} documents without a file"
        )
