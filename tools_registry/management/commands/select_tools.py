"""`select_tools "question"`: which tools would be offered to a user for a question, with scores and reasons."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from agents.models import RuntimeSettings
from agents.settings import Knobs, ToolMode
from knowledge.management.terminal import JsonCommand
from tools_registry.catalog import available_tools, user_tags
from tools_registry.index import sync_index
from tools_registry.selection import SelectedTool, mode_in_use, simulate_selection


class Command(JsonCommand):
    help = "Select tools for a question, without asking a model."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("question")
        parser.add_argument("--user", default="", help="a user's name; a visitor by default")
        parser.add_argument("--mode", choices=ToolMode.values, default="")
        parser.add_argument("--limit", type=int, default=0, help="tools; the site's setting by default")

    def handle(self, *args: Any, **options: Any) -> None:
        site = RuntimeSettings.load()
        config = Knobs(
            tool_mode=options["mode"] or site.get("tool_mode"),
            tool_top_k=max(0, options["limit"]) or site.get("tool_top_k"),
            tool_threshold=site.get("tool_threshold"),
        )
        tags = _tags(options["user"])
        mode = mode_in_use(config, available_tools(user_tags=tags, agent_id=None))
        if mode != ToolMode.DIRECT:
            # Costs nothing where the index is up to date; a terminal has no worker to ask.
            sync_index(external=mode == ToolMode.EXTERNAL)
        simulated = simulate_selection(options["question"], tags=tags, agent_id=None, config=config)
        chosen = [found for found in simulated.scored if found.reason]
        lines = [
            f"{'  –  ' if found.score is None else f'{found.score:.3f}'}  {found.spec.name}  ({found.reason})"
            for found in chosen
        ]
        self.tell(options, {"tools": [_row(found) for found in chosen]}, lines)


def _tags(username: str) -> frozenset[str]:
    if not username:
        return frozenset()
    model = get_user_model()
    user = model.objects.filter(**{model.USERNAME_FIELD: username}).first()
    if user is None:
        raise CommandError(f"There is no user {username!r}. Name one, or leave --user out.")
    return user_tags(user)


def _row(found: SelectedTool) -> dict[str, Any]:
    return {
        "name": found.spec.name,
        "score": None if found.score is None else round(found.score, 4),
        "reason": found.reason.value,
    }
