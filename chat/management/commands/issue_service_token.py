"""`issue_service_token NAME`: a token for the batch endpoint, printed once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from agents.models import Deployment
from chat.models import ApiKey


class Command(BaseCommand):
    help = "Issue a service token for the batch endpoint; it is shown once. Revoke it in the admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="who will use it; shown in the admin")
        parser.add_argument(
            "--deployment",
            action="append",
            default=[],
            metavar="SLUG",
            help="limit it to this deployment's conversations; may be given several times",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, slugs = options["name"].strip(), set(options["deployment"])
        if not name or len(name) > 100:
            raise CommandError("Give a name of 1 to 100 characters.")
        if ApiKey.objects.filter(name=name).exists():
            raise CommandError(f"{name!r} exists already: choose another name, or delete it in the admin first.")
        deployments = list(Deployment.objects.filter(slug__in=slugs))
        if missing := slugs - {deployment.slug for deployment in deployments}:
            raise CommandError(f"There is no deployment {', '.join(sorted(missing))}.")
        with transaction.atomic():
            _token, text = ApiKey.issue_service(name, *deployments)
        self.stderr.write("Keep this token now: only its hash is stored.")
        self.stdout.write(text)
