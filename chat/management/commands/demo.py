"""`demo`: the product answering questions about itself, from a fresh clone, with no service and no key."""

import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils.translation import gettext_noop

from agents.models import Agent, Deployment
from chat.management.commands.serve import add_serving_arguments

SLUG = "demo"
ADMIN = "admin"
GUIDE = settings.BASE_DIR / "docs" / "guide"
#: Stored in French and shown in the language of its reader (`agents.effective`).
PRESENTATION = gettext_noop(
    "Je réponds aux questions sur Répondant : ce qu’il fait, son administration, son exploitation."
)
WELCOME = """Posez une question sur Répondant, en français ou en anglais.
Ask about Répondant, in French or in English."""
SUGGESTIONS = """Qu’est-ce que Répondant ?
Comment ajouter des documents ?
How do I connect a language model?
How can I add the widget to my web site?"""


class Command(BaseCommand):
    help = "Set up and serve a demonstration that answers from the project's own user guide."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_serving_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        self.stdout.write("Indexing the user guide…")
        make_agent()
        # Pages that are unchanged cost nothing.
        call_command("add_documents", SLUG, str(GUIDE), category="Guide")
        self.stdout.write(credentials())
        serving = {name: options[name] for name in ("host", "port", "processes", "no_worker")}
        call_command("serve", **serving)


def make_agent() -> None:
    agent, _ = Agent.objects.get_or_create(
        slug=SLUG,
        defaults={
            "name": "Guide de Répondant",
            "description": "Répond aux questions sur Répondant lui-même, d’après son guide.",
        },
    )
    shown = {"welcome": WELCOME, "suggestions": SUGGESTIONS, "config_overlay": {"presentation": PRESENTATION}}
    Deployment.objects.get_or_create(slug=SLUG, defaults={"name": "Guide de Répondant", "agent": agent, **shown})


def credentials() -> str:
    """Make the admin user once; say its password for as long as it is the one drawn here."""
    kept = Path(settings.DATA_DIR) / "demo_password"
    user_model = get_user_model()
    user = user_model.objects.filter(username=ADMIN).first()
    if user is None:
        password = secrets.token_urlsafe(9)
        kept.unlink(missing_ok=True)
        kept.touch(mode=0o600)
        kept.write_text(password)
        user_model.objects.create_superuser(username=ADMIN, password=password)
    else:
        password = kept.read_text() if kept.exists() else ""
        if not password or not user.check_password(password):
            return f"Admin user: {ADMIN}, with the password you chose (change it: manage.py changepassword {ADMIN})"
    return f"Admin user: {ADMIN}   password: {password}"
