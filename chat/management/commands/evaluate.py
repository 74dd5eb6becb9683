"""`evaluate DEPLOYMENT QUESTIONS`: a file or a set through the whole path, without writing; fails where one fails."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from chat.staff.golden import Row, evaluate, questions_named, summarise
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = "Run a file of questions through the whole path and compare with its expectations."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("questions", help="a JSONL file, or the name of a set")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = deployment_named(options["deployment"])
        with errors_to_terminal():
            questions = questions_named(options["questions"])
            if questions is None:
                raise CommandError(f"There is no set and no file {options['questions']}.")
            asked = evaluate(deployment, questions)
            rows = list(tqdm(asked, total=len(questions), unit="question", dynamic_ncols=True))
        summary = summarise(rows)
        if options["json"]:
            print_json(self.stdout, {"rows": rows, "summary": summary})
        else:
            self._tell(rows, summary)
        if not all(row["passed"] for row in rows):
            sys.exit(1)

    def _tell(self, rows: list[Row], summary: Row) -> None:
        for key, value in summary.items():
            self.stdout.write(f"{key}: {value}")
        for row in rows:
            if not row["passed"]:
                self.stdout.write(f"  {row['question'][:80]}: {', '.join(row['unmet'])}")
