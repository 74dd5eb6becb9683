"""`export_agent SLUG FILE`: everything an agent has, as one file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.models import Agent
from agents.staff.agent_files import AgentFileError, export_agent


class Command(BaseCommand):
    help = "Write an agent with its settings, documents, answers, synonyms and tools' texts into one zip."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = Agent.objects.filter(slug=options["slug"]).first()
        if agent is None:
            raise CommandError(f"There is no agent {options['slug']!r}.")
        path: Path = options["file"]
        try:
            with path.open("xb") as target:
                export_agent(agent, target)
        except AgentFileError as error:
            path.unlink()
            raise CommandError(str(error.public_message)) from error
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from error
        self.stdout.write(f"{path}: agent {agent.slug!r}")
