"""`write_questions AGENT`: what the passages that wait for questions will take, and writing them here; or hold, go on,
stop.
"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from agents.models import Agent
from knowledge.indexing.jobs.decisions import cancel_build, pause_build, resume_build
from knowledge.indexing.jobs.queue import create_questions
from knowledge.indexing.jobs.run import run_build
from knowledge.indexing.questions.estimate import Estimate, estimate_questions
from knowledge.management.terminal import (
    JsonCommand,
    agent_named,
    errors_to_terminal,
    estimate_lines,
    progress_bar,
    report_lines,
)
from knowledge.models import UNDER_WAY, BuildKind, BuildStatus, IndexBuild

_DECISIONS = {
    "pause": (pause_build, "paused; --resume goes on"),
    "resume": (resume_build, "goes on"),
    "stop": (cancel_build, "stopped; what is written is kept"),
}


class Command(JsonCommand):
    help = "Have the model write the questions that an agent's documents wait for, within the site's budget."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--estimate", action="store_true", help="calls, tokens, cost; asks nothing")
        what.add_argument("--pause", action="store_true", help="hold the writing that is under way")
        what.add_argument("--resume", action="store_true", help="let it go on, in the worker")
        what.add_argument("--stop", action="store_true", help="give it up")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        chosen = next((name for name in _DECISIONS if options[name]), "")
        with errors_to_terminal():
            if chosen:
                _decide(agent, chosen)
                self.tell(options, {"decided": chosen}, [_DECISIONS[chosen][1]])
                return
            estimate = _estimate(agent)
            if options["estimate"] or not estimate.passages:
                told = estimate.as_json()
                self.tell(options, told, estimate_lines(told))
                return
            self._write(agent, estimate, options)

    def _write(self, agent: Agent, estimate: Estimate, options: dict[str, Any]) -> None:
        if not options["json"]:
            for line in estimate_lines(estimate.as_json()):
                self.stdout.write(line)
        build = create_questions(agent=agent)
        if build is None:
            raise CommandError("Nothing waits for questions any more.")
        with progress_bar("passage") as on_progress:
            report = run_build(build.pk, on_progress=on_progress)
        if report is None:
            state = IndexBuild.objects.get(pk=build.pk).status
            if state == BuildStatus.PAUSED:
                raise CommandError("The writing is paused; --resume lets it go on.")
            raise CommandError("A worker writes them already; follow it in the admin.")
        told = {**report.as_json(), "goes_on_at": report.goes_on_at}
        lines = list(report_lines(told))
        if report.goes_on_at is not None:
            lines.append(f"  {report.goes_on_because} A worker goes on at {report.goes_on_at:%Y-%m-%d %H:%M}.")
        self.tell(options, told, lines)


def _estimate(agent: Agent) -> Estimate:
    estimate = estimate_questions(agent)
    if estimate is None:
        raise CommandError(
            "No model writes questions for this agent: none is configured (OPENAI_API_KEY, OPENAI_BASE_URL), or its setting "
            "for written questions is off."
        )
    return estimate


def _decide(agent: Agent, chosen: str) -> None:
    going = IndexBuild.objects.filter(
        agent=agent, kind=BuildKind.QUESTIONS, status__in=(*UNDER_WAY, BuildStatus.PAUSED)
    )
    build = going.first()
    if build is None or not _DECISIONS[chosen][0](build):
        raise CommandError(f"There is no writing of questions to {chosen} for {agent.slug}.")
