"""`issue_service_token NAME`: a token for the batch endpoint, printed once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from chat.management.commands.issue_api_key import deployments_named, new_name
from chat.models import ServiceToken


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
        name = new_name(ServiceToken, options["name"])
        deployments = deployments_named(options["deployment"])
        with transaction.atomic():
            _token, text = ServiceToken.issue(name, *deployments)
        self.stderr.write("Keep this token now: only its hash is stored.")
        self.stdout.write(text)
