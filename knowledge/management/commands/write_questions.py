"""`write_questions AGENT`: has the model write the questions that passages wait for, here and now; or stops it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from agents import jobs
from agents.models import OPEN_JOBS, Agent, JobKind
from knowledge.indexing.jobs import create_questions, run_build
from knowledge.indexing.questions import waiting_count
from knowledge.management.terminal import (
    JsonCommand,
    agent_named,
    errors_to_terminal,
    progress_bar,
    report_lines,
    waiting_line,
)
from knowledge.models import IndexBuild


class Command(JsonCommand):
    help = "Have the model write the questions that an agent's documents wait for, up to the site's calls of a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent")
        parser.add_argument("--stop", action="store_true", help="give up the writing that is under way")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"])
        with errors_to_terminal():
            if options["stop"]:
                _stop(agent)
                self.tell(options, {"decided": "stop"}, ["stopped; what is written is kept"])
            else:
                self._write(agent, options)

    def _write(self, agent: Agent, options: dict[str, Any]) -> None:
        count = waiting_count(agent)
        if count is None:
            raise CommandError(
                "No model writes questions for this agent: none is configured (OPENAI_API_KEY, OPENAI_BASE_URL), or its "
                "setting for written questions is off."
            )
        build = create_questions(agent=agent)
        if build is None:
            self.tell(options, {"questions_waiting": 0}, ["nothing waits for questions"])
            return
        if not options["json"]:
            self.stdout.write(waiting_line(count))
        with progress_bar("passage") as on_progress:
            report = run_build(build.pk, on_progress=on_progress)
        if report is None:
            raise CommandError("A worker writes them already; follow it in the admin.")
        told = {**report.as_json(), "goes_on_at": report.goes_on_at}
        lines = list(report_lines(told))
        if report.goes_on_at is not None:
            lines.append(f"  {report.goes_on_because} A worker goes on at {report.goes_on_at:%Y-%m-%d %H:%M}.")
        self.tell(options, told, lines)


def _stop(agent: Agent) -> None:
    build = IndexBuild.objects.filter(agent=agent, kind=JobKind.QUESTIONS, status__in=OPEN_JOBS).first()
    if build is None or not jobs.cancel(build):
        raise CommandError(f"There is no writing of questions to stop for {agent.slug}.")
