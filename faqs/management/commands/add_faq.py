"""`add_faq AGENT --question Q --answer A`: keep a validated answer and index it, inline."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faqs.indexing import sync_learned
from faqs.learning import DEFAULT_CATEGORY, save_learned
from faqs.models import LearnedKind, LearnedResponse
from knowledge.management.terminal import agent_named, errors_to_terminal, print_json


class Command(BaseCommand):
    help = "Add a validated answer to an agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("--question", required=True)
        parser.add_argument("--answer", required=True)
        parser.add_argument(
            "--phrasing", action="append", default=[], help="another way to ask it; may be repeated"
        )
        parser.add_argument("--category", default=DEFAULT_CATEGORY)
        parser.add_argument(
            "--review-date", type=date.fromisoformat, metavar="YYYY-MM-DD", help="served until then"
        )
        parser.add_argument(
            "--courtesy", action="store_true", help="a greeting or thanks, matched by its words"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        with errors_to_terminal():
            row = LearnedResponse(
                agent=agent,
                question=options["question"],
                answer=options["answer"],
                category=options["category"],
                review_date=options["review_date"],
                kind=LearnedKind.COURTESY if options["courtesy"] else LearnedKind.FAQ,
            )
            save_learned(row, phrasings=options["phrasing"], in_worker=False)
        report = sync_learned([row.pk])
        row.refresh_from_db()
        if options["json"]:
            print_json(
                self.stdout,
                {"id": row.pk, "question": row.question, "index_state": row.index_state},
            )
        else:
            self.stdout.write(f"{row.pk}: {row.question} ({row.index_state})")
        if report.failed:
            raise CommandError(
                f"The answer is kept and will be indexed later: {report.failed[0]['reason']} "
                "A worker tries again by itself; `manage.py sync_faqs` does it now."
            )
