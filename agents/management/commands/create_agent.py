"""`create_agent SLUG`: an agent with a deployment of the same slug."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from agents.models import Agent, Deployment, IndexingMethod


class Command(BaseCommand):
    help = "Create an agent, and a deployment of the same slug, open to everyone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", default="", help="shown to people; the slug by default")
        parser.add_argument("--indexing-method", choices=IndexingMethod.values, default=IndexingMethod.QA_ATOMIC.value)

    def handle(self, *args: Any, **options: Any) -> None:
        slug, name = options["slug"], options["name"] or options["slug"]
        try:
            validate_slug(slug)
        except ValidationError as error:
            raise CommandError(f"{slug!r} is not a slug: use letters, digits, hyphens and underscores.") from error
        if Agent.objects.filter(slug=slug).exists() or Deployment.objects.filter(slug=slug).exists():
            raise CommandError(f"An agent or a deployment {slug!r} exists already; choose another slug.")
        with transaction.atomic():
            agent = Agent.objects.create(slug=slug, name=name, indexing_method=options["indexing_method"])
            Deployment.objects.create(slug=slug, name=name, agent=agent)
        self.stdout.write(f"Agent and deployment {slug!r} created; next: add_documents {slug} PATH…")
