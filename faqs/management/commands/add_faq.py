"""`add_faq AGENT --question Q --answer A`: keep a validated answer and index it, inline.

Answers that exist already, or contradict it, are named on standard error; it is kept all the same.
"""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import CommandError

from agents.errors import ApplicationError
from faqs.answer_points import sync_learned
from faqs.answers import DEFAULT_CATEGORY, save_learned
from faqs.models import LearnedKind, LearnedResponse
from faqs.neighbours import find_similar
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
        warnings = [] if options["courtesy"] else self._warnings(row, options["phrasing"])
        report = sync_learned([row.pk])
        row.refresh_from_db()
        for warning in warnings:
            self.stderr.write("Warning: {kind} of {id}: {question}".format(**warning))
        result = {"id": row.pk, "question": row.question, "index_state": row.index_state, "warnings": warnings}
        self.tell(options, result, [f"{row.pk}: {row.question} ({row.index_state})"])
        if report.failed:
            raise CommandError(
                f"The answer is kept and will be indexed later: {report.failed[0]['reason']} "
                "A worker tries again by itself."
            )

    def _warnings(self, row: LearnedResponse, phrasings: list[str]) -> list[dict[str, Any]]:
        """Compared before it is indexed; where that cannot be done the answer is kept all the same."""
        try:
            similar = find_similar(
                agent=row.agent, questions=[row.question, *phrasings], answer=row.answer, exclude=row.pk
            )
        except ApplicationError as error:
            self.stderr.write(f"Not compared with the other answers: {error.public_message}")
            return []
        return [
            {"kind": each.kind, "id": each.response.pk, "question": each.question, "answer": each.response.answer}
            for each in similar
        ]
