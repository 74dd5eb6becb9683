"""What an upgraded site still does, looked at from inside its own process: `python -m tests.releases.questioning
[COMMAND]…`.

Each COMMAND of `manage.py` is run before. Prints one JSON object: the answers to the questions of the kept site, and
the status of each page that staff open. The pages are asked for as a browser would, with a session that came from the
sign-in form.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import django

django.setup()

from django.contrib import admin  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import reverse  # noqa: E402

from chat.models import Conversation  # noqa: E402
from chat.runs.terminal import ask  # noqa: E402
from knowledge.management.terminal import deployment_named  # noqa: E402
from tests.releases.kept_site import AGENT, PASSWORD, QUESTIONS, REFUSED, TITLE, USER  # noqa: E402


def main(commands: Sequence[str]) -> None:
    for command in commands:
        call_command(*command.split(), stdout=sys.stderr)
    told = {"answers": answers(), **pages(signed_in())}
    sys.stdout.write(json.dumps(told, ensure_ascii=False))


def answers() -> list[dict[str, Any]]:
    deployment = deployment_named(AGENT)
    asked = [question for question, _piece, _exit in QUESTIONS] + [REFUSED[0]]
    rows = [ask(deployment, question) for question in asked]
    return [{name: row[name] for name in ("answer", "answer_source")} for row in rows]


def signed_in() -> Client:
    client = Client(SERVER_NAME="localhost")
    client.post(reverse("account_login"), {"login": USER, "password": PASSWORD})
    return client


def pages(client: Client) -> dict[str, Any]:
    """Every list of the admin, and the first row of each; the conversation as its owner reads it."""
    statuses = {}
    admin.autodiscover()
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        statuses[name] = client.get(reverse(f"admin:{name}_changelist"), follow=True).status_code
        first = model._default_manager.order_by("pk").first()
        if first is not None:
            address = reverse(f"admin:{name}_change", args=[first.pk])
            statuses[f"{name} {first.pk}"] = client.get(address).status_code
    conversation = Conversation.objects.get(title=TITLE)
    thread = client.get(f"/api/conversations/{conversation.pk}/messages/").json()
    return {
        "pages": statuses,
        "conversation": [message["content"] for message in thread["messages"]],
        "ready": client.get("/readyz").json()["version"],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
