"""`evaluate DEPLOYMENT QUESTIONS`: a file or a set through the whole path, without writing; fails where one fails."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from chat.staff.golden import evaluate, questions_named, summarise
from knowledge.management.terminal import JsonCommand, deployment_named


class Command(JsonCommand):
    help = "Run a file of questions through the whole path and compare with its expectations."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("questions", help="a JSONL file, or the name of a set")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = deployment_named(options["deployment"])
        questions = questions_named(options["questions"])
        if questions is None:
            raise CommandError(f"There is no set and no file {options['questions']}.")
        asked = evaluate(deployment, questions)
        rows = list(tqdm(asked, total=len(questions), unit="question", dynamic_ncols=True))
        summary = summarise(rows)
        failed = [row for row in rows if not row["passed"]]
        lines = [f"{key}: {value}" for key, value in summary.items()]
        lines += [f"  {row['question'][:80]}: {', '.join(row['unmet'])}" for row in failed]
        self.tell(options, {"rows": rows, "summary": summary}, lines)
        if failed:
            sys.exit(1)
