"""`demo`: the product answering questions about itself, from a fresh clone, with no service and no key."""

import os
import secrets
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connections
from django.utils.translation import gettext_noop

from agents.models import Agent, Deployment
from chat.management.commands.serve import add_serving_arguments
from knowledge.indexing.path import index_documents, store_document
from knowledge.management.terminal import errors_to_terminal, progress_bar
from knowledge.models import Category

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
        with errors_to_terminal():
            agent = make_agent()
            index_guide(agent)
        self.stdout.write(credentials())
        serve_anew(options)


def serve_anew(options: dict[str, Any]) -> NoReturn:
    """Become `serve`: a process that has indexed keeps 24 MB that serving does not need (benchmarks/idle)."""
    words = ["serve", "--host", options["host"], "--port", str(options["port"])]
    words += ["--processes", str(options["processes"])]
    if options["no_worker"]:
        words.append("--no-worker")
    connections.close_all()
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *words]
    os.execv(sys.executable, command)  # noqa: S606  # our own command


def make_agent() -> Agent:
    agent, _ = Agent.objects.get_or_create(
        slug=SLUG,
        defaults={
            "name": "Guide de Répondant",
            "description": "Répond aux questions sur Répondant lui-même, d’après son guide.",
            "settings": {"presentation": PRESENTATION},
        },
    )
    Deployment.objects.get_or_create(
        slug=SLUG,
        defaults={"name": "Guide de Répondant", "agent": agent, "welcome": WELCOME, "suggestions": SUGGESTIONS},
    )
    return agent


def index_guide(agent: Agent) -> None:
    """Store and index every page of the guide; pages that are unchanged cost nothing."""
    documents = []
    for language, label in (("fr", "Guide"), ("en", "Guide (English)")):
        category, _ = Category.objects.get_or_create(name=label)
        for page in sorted((GUIDE / language).glob("*.md")):
            stored = store_document(
                agent=agent, name=f"{language}/{page.name}", data=page.read_bytes(), category=category
            )
            documents.append(stored.document)
    with progress_bar("point") as on_progress:
        index_documents(agent=agent, documents=documents, on_progress=on_progress)


def credentials() -> str:
    """Make the admin user once; say its password for as long as it is the one drawn here."""
    kept = Path(settings.DATA_DIR) / "demo_password"
    user_model = get_user_model()
    user = user_model.objects.filter(username=ADMIN).first()
    if user is None:
        password = secrets.token_urlsafe(9)
        descriptor = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password)
        user_model.objects.create_superuser(username=ADMIN, password=password)
    else:
        password = kept.read_text() if kept.exists() else ""
        if not password or not user.check_password(password):
            return f"Admin user: {ADMIN}, with the password you chose (change it: manage.py changepassword {ADMIN})"
    return f"Admin user: {ADMIN}   password: {password}"
