"""`import_agent FILE`: a new agent from a file that `export_agent` wrote."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.staff.agent_files import AgentFileError, import_agent, open_agent_file


class Command(BaseCommand):
    help = "Make a new agent of a file; its documents are indexed by a worker. Nothing is overwritten."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--as", dest="slug", default="", help="another slug than the file's")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            with path.open("rb") as source:
                file = open_agent_file(source)
                if options["dry_run"]:
                    taken = file.preview(options["slug"])
                else:
                    taken = import_agent(file, slug=options["slug"])
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from error
        except AgentFileError as error:
            raise CommandError(f"{path}: {error.public_message} ({error})") from error
        for name, count in taken.counts.items():
            self.stdout.write(f"{name}: {count}")
        for notice in taken.notices:
            self.stderr.write(notice)
