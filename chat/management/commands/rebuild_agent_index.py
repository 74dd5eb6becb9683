"""`rebuild_agent_index AGENT`: a new generation of the index, a preview of it, or the way back."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent, IndexingMethod
from chat.staff.golden import last_questions, questions_named
from knowledge.indexing.jobs import create_rebuild, enqueue_rebuild, run_build
from knowledge.indexing.points import IndexReport
from knowledge.indexing.rebuild import prepare_rollback, preview_rebuild, rollback_agent_index
from knowledge.management.terminal import JsonCommand, agent_named, progress_bar, report_lines

Report = dict[str, Any]
#: Real questions that a rebuild is previewed with, when none are named.
PREVIEW_QUESTIONS = 50


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
        parser.add_argument(
            "--questions",
            help="with --dry-run, a JSONL file or the name of a set: compare what they retrieve (default: the last real ones)",
        )
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        method = options["method"]
        methods = [IndexingMethod(method)] if method else sorted(agent.methods_in_use())
        lines: Callable[[Report], Iterable[str]] = _generation_line
        if options["dry_run"]:
            asked = _questions(agent, options["questions"])
            reports, lines = [_preview(agent, each, asked) for each in methods], _preview_lines
        elif options["rollback"]:
            # All of them first: one that cannot go back leaves the others where they are.
            for each in methods:
                prepare_rollback(agent=agent, method=each)
            reports = [{"generation": rollback_agent_index(agent=agent, method=each)} for each in methods]
        elif options["enqueue"]:
            reports = [{"generation": enqueue_rebuild(agent=agent, method=each).generation} for each in methods]
        else:
            reports, lines = [_rebuild(agent, each) for each in methods], report_lines
        total = _sum(reports)
        self.tell(options, total, lines(total))


def _questions(agent: Agent, named: str | None) -> Sequence[str]:
    if not named:
        return list(last_questions(PREVIEW_QUESTIONS, conversation__deployment__agent=agent))
    rows = questions_named(named)
    if rows is None:
        raise CommandError(f"There is no set and no file {named}.")
    return [row["question"] for row in rows]


def _generation_line(total: Report) -> list[str]:
    return [f"generation: {total['generation']}"]


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
    build = create_rebuild(agent=agent, method=method)
    with progress_bar("point") as on_progress:
        report = run_build(build.pk, on_progress=on_progress)
    if report is None:
        raise CommandError("A worker has taken this rebuild; follow it in the admin.")
    return {**report.as_json(), "generation": report.generation}


def _preview(agent: Agent, method: IndexingMethod, questions: Sequence[str]) -> Report:
    with progress_bar("point") as on_progress:
        return preview_rebuild(agent=agent, method=method, questions=questions, on_progress=on_progress)


#: What adds up over several methods; documents and chunks are the same in each.
_ADDED = ("points", "embedded", "reused", "model_calls", "added", "removed", "changed", "questions", "seconds")


def _sum(reports: list[Report]) -> Report:
    """One report of several methods, with every key that any report has."""
    total = {**IndexReport().as_json(), "generation": "", **reports[0]}
    for report in reports[1:]:
        for key in _ADDED:
            if key in report:
                total[key] += report[key]
        total["generation"] = f"{total['generation']} {report.get('generation', '')}".strip()
    total["seconds"] = round(total["seconds"], 3)
    return total
