"""`evaluate_tools --tools FILE.jsonl --queries FILE.jsonl`: recall of selection on tools that need not be installed.

A line of the first file has `name`, `description`, and perhaps `parameters`, `keywords`, `examples`; one of the second
has `query` and `tool` (a name, or a list of the names that are needed together; `tools` is accepted too).
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from knowledge.embeddings.base import embedder
from knowledge.management.terminal import errors_to_terminal, print_json
from tools_registry.evaluation import (
    LabelledQuery,
    described_tool,
    evaluate_ranking,
    ranking_of,
)
from tools_registry.tool import ToolSpec


class Command(BaseCommand):
    help = "Measure recall at 1, 3, 5 and 10 of the selection of tools."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tools", required=True, type=Path)
        parser.add_argument("--queries", required=True, type=Path)
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        tools = _tools(options["tools"])
        queries = _queries(options["queries"], {spec.name for spec in tools})
        model = embedder()
        with errors_to_terminal():
            report = evaluate_ranking(ranking_of(tools, model), queries, model)
        if options["json"]:
            print_json(
                self.stdout,
                {
                    "recall": report.recall,
                    "complete": report.complete,
                    "queries": report.queries,
                    "tools": len(tools),
                },
            )
            return
        self.stdout.write(f"{report.queries} queries, {len(tools)} tools")
        for cut, share in report.recall.items():
            self.stdout.write(
                f"  recall@{cut}: {share:.3f}  (all tools: {report.complete[cut]:.3f})"
            )


def _tools(path: Path) -> list[ToolSpec]:
    found: dict[str, ToolSpec] = {}
    for number, row in _rows(path):
        for key in ("name", "description"):
            if not isinstance(row.get(key), str) or not row[key].strip():
                raise CommandError(f"{path}, line {number}: {key!r} is missing or empty.")
        if row["name"] in found:
            raise CommandError(f"{path}, line {number}: a second tool named {row['name']!r}.")
        found[row["name"]] = described_tool(row)
    if not found:
        raise CommandError(f"{path} holds no tool.")
    return list(found.values())


def _queries(path: Path, known: set[str]) -> list[LabelledQuery]:
    queries = []
    for number, row in _rows(path):
        text, expected = row.get("query"), row.get("tools", row.get("tool"))
        names = tuple(dict.fromkeys([expected] if isinstance(expected, str) else expected or ()))
        if not isinstance(text, str) or not text.strip() or not names:
            raise CommandError(f"{path}, line {number}: 'query' and 'tool' are needed.")
        if unknown := [name for name in names if name not in known]:
            raise CommandError(f"{path}, line {number}: there is no tool {unknown[0]!r}.")
        queries.append(LabelledQuery(text, names))
    if not queries:
        raise CommandError(f"{path} holds no query.")
    return queries


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise CommandError(f"{path}, line {number}: not a JSON object.")
        yield number, row
