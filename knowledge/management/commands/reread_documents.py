"""`reread_documents [AGENT] [--estimate]`: read again what an older reader read, inline, with a progress bar."""

from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent
from knowledge.indexing.jobs import enqueue_questions
from knowledge.indexing.path import cost_of_rereading, outdated_documents, reread_documents
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
        parser.add_argument("--estimate", action="store_true", help="say what it would change and cost; write nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"]) if options["agent"] else None
        documents = outdated_documents(agent)
        with errors_to_terminal(), progress_bar("document") as on_progress:
            if options["estimate"]:
                cost = cost_of_rereading(documents, on_progress=on_progress).as_json()
                self.tell(options, cost, _cost_lines(cost))
                return
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


def _cost_lines(cost: dict[str, float]) -> list[str]:
    lines = [
        f"{cost['documents']} documents were read by an older reader; read again in {cost['seconds']} s",
        f"{cost['kept']} passages are the same and keep their vectors",
        f"{cost['new']} passages are new, to be embedded; {cost['gone']} go",
    ]
    if cost["renamed"]:
        lines.append(f"{cost['renamed']} passages stand under other headings and keep their questions")
    if cost["questions"]:
        lines.append(f"{cost['questions']} passages would have their questions written by the model")
    if cost["unreadable"]:
        lines.append(f"{cost['unreadable']} documents could not be read")
    return lines
