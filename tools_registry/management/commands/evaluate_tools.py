"""`evaluate_tools --tools FILE.jsonl --queries FILE.jsonl`: recall of selection on tools that need not be installed.

A tool has `name`, `description`, perhaps `parameters`, `keywords`, `examples`; a query `query` and `tool` (or `tools`).
"""

from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from knowledge.embeddings.base import embedder
from knowledge.management.terminal import JsonCommand
from tools_registry.evaluation import evaluate_ranking, ranking_of, read_queries, read_tools


class Command(JsonCommand):
    help = "Measure recall at 1, 3, 5 and 10 of the selection of tools."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--tools", required=True, type=Path)
        parser.add_argument("--queries", required=True, type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            tools, queries = read_tools(options["tools"]), read_queries(options["queries"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        model = embedder()
        report = evaluate_ranking(ranking_of(tools, model), queries, model)
        lines = [f"{report.queries} queries, {len(tools)} tools"]
        lines += [
            f"  recall@{cut}: {share:.3f}  (all tools: {report.complete[cut]:.3f})"
            for cut, share in report.recall.items()
        ]
        self.tell(options, {**asdict(report), "tools": len(tools)}, lines)
