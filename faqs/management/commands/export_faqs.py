"""`export_faqs AGENT`: an agent's validated answers as CSV, on standard output."""

from argparse import ArgumentParser
from typing import Any

from faqs.csv import export_csv
from faqs.models import LearnedKind, LearnedResponse, LearnedStatus
from knowledge.management.terminal import JsonCommand, agent_named


class Command(JsonCommand):
    help = "Export an agent's valid answers as CSV (question, answer, category)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("--all", action="store_true", help="those to review and the obsolete ones too")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        rows = LearnedResponse.objects.filter(agent=agent, kind=LearnedKind.FAQ).order_by("pk")
        if not options["all"]:
            rows = rows.filter(status=LearnedStatus.VALID)
        rows = rows.prefetch_related("phrasings")
        if options["json"]:
            self.tell(options, {"rows": [_as_json(row) for row in rows]}, ())
            return
        for line in export_csv(rows.iterator(chunk_size=500)):
            self.stdout.write(line, ending="")


def _as_json(row: LearnedResponse) -> dict[str, Any]:
    return {
        "question": row.question,
        "answer": row.answer,
        "category": row.category,
        "phrasings": [phrasing.text for phrasing in row.phrasings.all()],
    }
