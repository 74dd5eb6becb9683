"""`index_tools`: bring the vectors of the tools' effective texts up to date; what did not change costs nothing."""

from dataclasses import asdict
from typing import Any

from knowledge.management.terminal import JsonCommand
from tools_registry.index import sync_index


class Command(JsonCommand):
    help = "Index the descriptions and phrasings of every tool, as staff left them."

    def handle(self, *args: Any, **options: Any) -> None:
        report = sync_index()
        line = (
            f"{report.tools} tools, {report.embedded} texts embedded, {report.reused} reused, "
            f"{report.removed} tools removed"
        )
        stored = "" if report.external is None else f", {report.external} in the vector store"
        self.tell(options, asdict(report), [line + stored])
