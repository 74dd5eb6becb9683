"""`add_faq AGENT --question Q --answer A`: keep a validated answer and index it, inline."""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import CommandError

from faqs.answer_points import sync_learned
from faqs.answers import DEFAULT_CATEGORY, save_learned
from faqs.models import LearnedKind, LearnedResponse
from knowledge.management.terminal import JsonCommand, agent_named


class Command(JsonCommand):
    help = "Add a validated answer to an agent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("--question", required=True)
        parser.add_argument("--answer", required=True)
        parser.add_argument("--phrasing", action="append", default=[], help="another way to ask it; may be repeated")
        parser.add_argument("--category", default=DEFAULT_CATEGORY)
        parser.add_argument("--review-date", type=date.fromisoformat, metavar="YYYY-MM-DD", help="served until then")
        parser.add_argument("--courtesy", action="store_true", help="a greeting or thanks, matched by its words")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
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
        result = {"id": row.pk, "question": row.question, "index_state": row.index_state}
        self.tell(options, result, [f"{row.pk}: {row.question} ({row.index_state})"])
        if report.failed:
            raise CommandError(
                f"The answer is kept and will be indexed later: {report.failed[0]['reason']} "
                "A worker tries again by itself."
            )
