"""`ask DEPLOYMENT "question"`: one turn from the terminal."""

import uuid
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from chat.runs.terminal import ask
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = "Ask a deployment one question."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("question")
        parser.add_argument("--conversation", type=uuid.UUID, help="continue this conversation")
        parser.add_argument("--dry-run", action="store_true", help="store nothing")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = deployment_named(options["deployment"])
        with errors_to_terminal():
            row = ask(
                deployment, options["question"], conversation_id=options["conversation"], dry_run=options["dry_run"]
            )
        if options["json"]:
            print_json(self.stdout, row)
            return
        self.stdout.write(row["answer"])
        self.stdout.write(f"\n— {row['answer_source']} {row['model']}".rstrip())
        for source in row["sources"]:
            self.stdout.write(f"  [{source['n']}] {source['title']} ({source['score']:.3f})")
        if row["conversation_id"]:
            self.stdout.write(f"  conversation {row['conversation_id']}")
