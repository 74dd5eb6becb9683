"""`issue_api_key NAME --deployment SLUG`: a key for `/v1`, printed once."""

from argparse import ArgumentParser
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from agents.models import Deployment
from chat.models import ApiKey, ServiceToken


class Command(BaseCommand):
    help = "Issue an API key for /v1; it is shown once. Revoke it in the admin."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="who will use it; shown in the admin")
        parser.add_argument(
            "--deployment",
            action="append",
            required=True,
            metavar="SLUG",
            help="what it opens; may be given several times",
        )
        parser.add_argument("--expires-days", type=int, metavar="DAYS", help="default: never")

    def handle(self, *args: Any, **options: Any) -> None:
        name = new_name(ApiKey, options["name"])
        days = options["expires_days"]
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--expires-days is a number from 1 to 36500.")
        deployments = deployments_named(options["deployment"])
        key = ApiKey(name=name, expires_at=timezone.now() + timedelta(days=days) if days else None)
        secret = key.draw_secret()
        with transaction.atomic():
            key.save()
            key.deployments.set(deployments)
        self.stderr.write("Keep this key now: only its hash is stored.")
        self.stdout.write(secret)


def new_name(model: type[ApiKey | ServiceToken], given: str) -> str:
    """The name of a new row, which no other has."""
    name = given.strip()
    if not name or len(name) > 100:
        raise CommandError("Give a name of 1 to 100 characters.")
    if model._default_manager.filter(name=name).exists():
        raise CommandError(f"{name!r} exists already: choose another name, or delete it in the admin first.")
    return name


def deployments_named(slugs: Collection[str]) -> list[Deployment]:
    deployments = list(Deployment.objects.filter(slug__in=slugs))
    if missing := {*slugs} - {deployment.slug for deployment in deployments}:
        raise CommandError(f"There is no deployment {', '.join(sorted(missing))}.")
    return deployments
