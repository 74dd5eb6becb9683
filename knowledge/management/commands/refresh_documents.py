"""`refresh_documents [AGENT]`: read the pages and sitemaps of the web again, inline, with a progress bar."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from knowledge.indexing.jobs import build_missing_indexes, due_sources, refresh_now
from knowledge.indexing.points import IndexReport
from knowledge.management.terminal import JsonCommand, agent_named, errors_to_terminal, progress_bar, report_lines
from knowledge.models import WebSource


class Command(JsonCommand):
    help = "Read the pages and sitemaps that agents follow again; what has not changed costs nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", nargs="?", default="", help="all agents without")
        parser.add_argument("--due", action="store_true", help="only those whose time has come")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        report = IndexReport()
        sources = WebSource.objects.filter(is_active=True).select_related("agent").order_by("pk")
        if options["due"]:
            sources = due_sources()
        if options["agent"]:
            sources = sources.filter(agent=agent_named(options["agent"]))
        with errors_to_terminal(), progress_bar("page") as on_progress:
            found = list(sources)
            for source in found:
                refresh_now(source, report=report, on_progress=on_progress)
            for agent in {source.agent for source in found}:
                build_missing_indexes(agent=agent, report=report, on_progress=on_progress)
        told = {**report.as_json(), "sources": len(found)}
        self.tell(options, told, [f"{len(found)} addresses", *report_lines(told)])
        if report.failed and not report.pages:
            raise CommandError("No address could be read; the reasons are above.")
