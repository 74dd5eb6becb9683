"""`rebuild_agent_index AGENT`: a new generation of the index, a preview of it, or the way back."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.models import Agent, IndexingMethod
from knowledge.indexing.jobs import create_rebuild, enqueue_rebuild, run_build
from knowledge.indexing.rebuild import diff_agent_index, rollback_agent_index
from knowledge.indexing.report import IndexReport
from knowledge.management.terminal import (
    agent_named,
    errors_to_terminal,
    print_json,
    print_report,
    progress_bar,
)


class Command(BaseCommand):
    help = "Rebuild an agent's index as a new generation; readers move to it when it is complete."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument(
            "--method",
            choices=IndexingMethod.values,
            help="one method only; by default every method that the agent and its deployments use",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--dry-run", action="store_true", help="show what would change")
        what.add_argument("--rollback", action="store_true", help="back to the generation before")
        what.add_argument("--enqueue", action="store_true", help="hand over to the worker")
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        method = options["method"]
        methods = [IndexingMethod(method)] if method else sorted(agent.methods_in_use())
        act = {"dry_run": _preview, "rollback": _roll_back, "enqueue": _enqueue}
        chosen = next((verb for name, verb in act.items() if options[name]), _rebuild)
        with errors_to_terminal():
            reports = [chosen(agent, method) for method in methods]
        total = _sum(reports)
        if options["json"]:
            print_json(self.stdout, total)
        elif chosen is _rebuild:
            print_report(self.stdout, total)
        else:
            self.stdout.write(
                ", ".join(
                    f"{key}: {value}" for key, value in total.items() if value not in ([], "")
                )
            )


Report = dict[str, Any]


def _rebuild(agent: Agent, method: IndexingMethod) -> Report:
    build = create_rebuild(agent=agent, method=method)
    with progress_bar("point") as on_progress:
        report = run_build(build.pk, on_progress=on_progress)
    if report is None:
        raise CommandError("A worker has taken this rebuild; follow it in the admin.")
    return {**report.as_json(), "generation": report.generation}


def _preview(agent: Agent, method: IndexingMethod) -> Report:
    return {**_empty(), **asdict(diff_agent_index(agent=agent, method=method))}


def _roll_back(agent: Agent, method: IndexingMethod) -> Report:
    return {**_empty(), "generation": rollback_agent_index(agent=agent, method=method)}


def _enqueue(agent: Agent, method: IndexingMethod) -> Report:
    return {**_empty(), "generation": enqueue_rebuild(agent=agent, method=method).generation}


def _empty() -> Report:
    return {**IndexReport().as_json(), "generation": ""}


def _sum(reports: list[Report]) -> Report:
    """One report of several methods: documents and chunks are the same in each, points and work add up."""
    total = dict(reports[0])
    for report in reports[1:]:
        for key in ("points", "embedded", "reused", "model_calls", "added", "removed", "changed"):
            if key in report:
                total[key] += report[key]
        total["seconds"] = round(total["seconds"] + report["seconds"], 3)
        total["generation"] = f"{total['generation']} {report['generation']}".strip()
    return total
