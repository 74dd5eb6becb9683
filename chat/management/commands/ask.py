"""`ask DEPLOYMENT "question"`: one turn from the terminal."""

import uuid
from argparse import ArgumentParser
from typing import Any

from chat.runs.terminal import ask
from knowledge.management.terminal import JsonCommand, deployment_named


class Command(JsonCommand):
    help = "Ask a deployment one question."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("question")
        parser.add_argument("--conversation", type=uuid.UUID, help="continue this conversation")
        parser.add_argument("--dry-run", action="store_true", help="store nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = deployment_named(options["deployment"])
        row = ask(deployment, options["question"], conversation_id=options["conversation"], dry_run=options["dry_run"])
        lines = [row["answer"], f"\n— {row['answer_source']} {row['model']}".rstrip()]
        lines += [f"  [{source['n']}] {source['title']} ({source['score']:.3f})" for source in row["sources"]]
        if row["conversation_id"]:
            lines.append(f"  conversation {row['conversation_id']}")
        self.tell(options, row, lines)
