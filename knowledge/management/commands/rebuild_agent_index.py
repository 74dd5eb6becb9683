"""`rebuild_agent_index AGENT`: a new generation of the index, a preview of it, or the way back."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent, IndexingMethod
from knowledge.indexing.jobs.decisions import approve_build, discard_build
from knowledge.indexing.jobs.queue import create_rebuild, enqueue_rebuild
from knowledge.indexing.jobs.run import run_build
from knowledge.indexing.preview import preview_rebuild, questions_from_file, recent_questions
from knowledge.indexing.questions.estimate import estimate_questions
from knowledge.indexing.rebuild import prepare_rollback, rollback_agent_index
from knowledge.indexing.report import IndexReport
from knowledge.management.terminal import JsonCommand, agent_named, errors_to_terminal, progress_bar, report_lines
from knowledge.models import BuildKind, BuildStatus, IndexBuild

Report = dict[str, Any]


class Command(JsonCommand):
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
        what.add_argument("--stage", action="store_true", help="fill it; staff put it in service")
        what.add_argument("--approve", action="store_true", help="put the staged one in service")
        what.add_argument("--discard", action="store_true", help="give the staged one up")
        parser.add_argument(
            "--questions",
            type=Path,
            metavar="FILE.jsonl",
            help="with --dry-run: compare what these questions retrieve (default: the last real ones)",
        )
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        method = options["method"]
        methods = [IndexingMethod(method)] if method else sorted(agent.methods_in_use())
        act: dict[str, Callable[[Agent, IndexingMethod], Report]] = {
            "rollback": _roll_back,
            "enqueue": _enqueue,
            "stage": _stage,
            "approve": _approve,
            "discard": _discard,
        }
        chosen = next((verb for name, verb in act.items() if options[name]), _rebuild)
        with errors_to_terminal():
            if options["dry_run"]:
                path = options["questions"]
                asked = questions_from_file(path) if path else recent_questions(agent)
                reports = [_preview(agent, each, asked) for each in methods]
            else:
                if options["rollback"]:
                    # All of them first: one that cannot go back leaves the others where they are.
                    for each in methods:
                        prepare_rollback(agent=agent, method=each)
                reports = [chosen(agent, each) for each in methods]
        total = _sum(reports) | waiting_questions(agent)
        if options["dry_run"]:
            lines = _preview_lines(total)
        elif chosen in (_rebuild, _stage, _approve):
            lines = chain(report_lines(total), _staged_lines(total))
        else:
            lines = iter([f"generation: {total['generation']}"])
        self.tell(options, total, lines)


def waiting_questions(agent: Agent) -> Report:
    """What the questions that wait would take: a rebuild asks no model."""
    estimate = estimate_questions(agent)
    return {"questions_waiting": estimate.as_json()} if estimate and estimate.passages else {}


def _staged_lines(total: Report) -> Iterator[str]:
    if total.get("staged"):
        yield "staged: readers still have the index before; --approve puts it in service"


def _preview_lines(total: Report) -> Iterator[str]:
    yield "added: {added}, removed: {removed}, changed: {changed}".format(**total)
    changed = [each for each in total["questions"] if each["is_changed"]]
    if total["questions"]:
        best = sum(each["has_other_best"] for each in changed)
        yield (
            f"{len(total['questions'])} questions: {len(changed)} retrieve something else, "
            f"{best} begin with another passage"
        )
    for each in changed:
        yield f"? {each['question']}"
        for label, found in (("before", each["before"]), ("after", each["after"])):
            if found is None:
                yield f"  {label}: the index in service cannot be searched"
            for row in found or ():
                text = (row["question"] or row["excerpt"]).replace("\n", " ")[:100]
                yield f"  {label}: {row['score']:.3f}  {row['title']}  {text}"


def _rebuild(agent: Agent, method: IndexingMethod) -> Report:
    return _run(create_rebuild(agent=agent, method=method))


def _stage(agent: Agent, method: IndexingMethod) -> Report:
    return _run(create_rebuild(agent=agent, method=method, needs_approval=True))


def _approve(agent: Agent, method: IndexingMethod) -> Report:
    build = _staged(agent, method)
    approve_build(build)
    return _run(build)


def _discard(agent: Agent, method: IndexingMethod) -> Report:
    build = _staged(agent, method)
    discard_build(build)
    return {**_empty(), "generation": build.generation}


def _staged(agent: Agent, method: IndexingMethod) -> IndexBuild:
    build = IndexBuild.objects.filter(
        agent=agent, method=method, kind=BuildKind.REBUILD, status=BuildStatus.STAGED
    ).first()
    if build is None:
        raise CommandError(f"No staged rebuild of {agent.slug} ({method.value}); use --stage.")
    return build


def _run(build: IndexBuild) -> Report:
    with progress_bar("point") as on_progress:
        report = run_build(build.pk, on_progress=on_progress)
    if report is None:
        raise CommandError("A worker has taken this rebuild; follow it in the admin.")
    build.refresh_from_db(fields=["status"])
    is_staged = build.status == BuildStatus.STAGED
    return {**report.as_json(), "generation": report.generation, "staged": is_staged}


def _preview(agent: Agent, method: IndexingMethod, questions: Sequence[str]) -> Report:
    with progress_bar("point") as on_progress:
        preview = preview_rebuild(agent=agent, method=method, questions=questions, on_progress=on_progress)
    return {**_empty(), **preview.as_json()}


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
        if "questions" in report:
            total["questions"] += report["questions"]
        total["seconds"] = round(total["seconds"] + report["seconds"], 3)
        total["staged"] = total.get("staged") or report.get("staged", False)
        total["generation"] = f"{total['generation']} {report['generation']}".strip()
    return total
