"""`reread_documents [AGENT]`: read again what an older reader read, inline, with a progress bar."""

from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent
from knowledge.indexing.jobs import enqueue_questions
from knowledge.indexing.path import outdated_documents, reread_documents
from knowledge.indexing.points import IndexReport
from knowledge.management.terminal import JsonCommand, agent_named, errors_to_terminal, progress_bar, report_lines
from knowledge.models import Document


class Command(JsonCommand):
    help = (
        "Read again the documents that an older version of the reader of their format read. Passages whose text is the same "
        "keep their rows and vectors."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", nargs="?", default="", help="all agents without")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"]) if options["agent"] else None
        documents = outdated_documents(agent)
        with errors_to_terminal(), progress_bar("document") as on_progress:
            report = IndexReport()
            reread_documents(documents, report=report, on_progress=on_progress)
            _queue_questions(documents)
        told = report.as_json()
        self.tell(options, told, report_lines(told))
        if report.failed:
            raise CommandError("Some documents could not be read or written; the reasons are above.")


def _queue_questions(documents: Sequence[Document]) -> None:
    """Have a worker write questions for passages that reading again brought, where a model writes them."""
    by_agent: defaultdict[Agent, list[int]] = defaultdict(list)
    for document in documents:
        by_agent[document.agent].append(document.pk)
    for agent, document_ids in by_agent.items():
        enqueue_questions(agent=agent, document_ids=document_ids)
