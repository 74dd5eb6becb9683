"""`evaluate DEPLOYMENT FILE.jsonl`: questions through the whole path, without writing."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from chat.staff.quality.evaluation import evaluate, read_questions, summarise
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = "Run a file of questions through the whole path and compare with its expectations."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("file", metavar="FILE.jsonl", type=Path)
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = deployment_named(options["deployment"])
        if not options["file"].is_file():
            raise CommandError(f"There is no file {options['file']}.")
        with errors_to_terminal():
            questions = list(read_questions(options["file"]))
            asked = evaluate(deployment, questions)
            rows = list(tqdm(asked, total=len(questions), unit="question", dynamic_ncols=True))
        summary = summarise(rows)
        if options["json"]:
            print_json(self.stdout, {"rows": rows, "summary": summary})
            return
        for key, value in summary.items():
            self.stdout.write(f"{key}: {value}")
        for row in rows:
            if not row["passed"]:
                self.stdout.write(f"  {row['question'][:80]}: {', '.join(row['unmet'])}")
