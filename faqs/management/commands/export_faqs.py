"""`export_faqs AGENT`: an agent's validated answers as CSV, on standard output or in a file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faqs.csv import export_csv
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus
from knowledge.management.terminal import agent_named, print_json


class Command(BaseCommand):
    help = "Export an agent's valid answers as CSV (question, answer, category)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("--output", type=Path, metavar="FILE.csv", help="instead of the screen")
        parser.add_argument("--all", action="store_true", help="those to review and the obsolete ones too")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        rows = LearnedResponse.objects.filter(agent=agent, kind=LearnedKind.FAQ).order_by("pk")
        if not options["all"]:
            rows = rows.filter(status=LearnedStatus.VALID)
        rows = rows.prefetch_related("phrasings")
        if options["json"] and not options["output"]:
            print_json(self.stdout, {"rows": [_as_json(row) for row in rows]})
            return
        lines = export_csv(rows.iterator(chunk_size=500))
        if options["output"] is None:
            for line in lines:
                self.stdout.write(line, ending="")
            return
        try:
            with options["output"].open("w", encoding="utf-8", newline="") as file:
                file.writelines(lines)
        except OSError as error:
            raise CommandError(f"{options['output']}: {error.strerror or error}") from error
        count = rows.count()
        if options["json"]:
            print_json(self.stdout, {"file": str(options["output"]), "exported": count})
        else:
            self.stderr.write(f"{count} answers in {options['output']}")


def _as_json(row: LearnedResponse) -> dict[str, Any]:
    return {
        "question": row.question,
        "answer": row.answer,
        "category": row.category,
        "phrasings": [phrasing.text for phrasing in row.phrasings.all()],
    }
