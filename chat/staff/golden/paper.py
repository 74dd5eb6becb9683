"""Settings changed on paper: on which row they would be written, what a turn would then read, and the writing itself."""

from collections.abc import Mapping
from typing import Any

from agents.effective import inherited_settings
from agents.models import Agent, Deployment, RuntimeSettings

Target = Deployment | Agent | RuntimeSettings

_LEVELS: dict[str, type[Target]] = {"deployment": Deployment, "agent": Agent, "site": RuntimeSettings}


def level_of(target: object) -> str:
    return next((level for level, model in _LEVELS.items() if isinstance(target, model)), "")


def target_of(level: str, pk: int | None) -> Target | None:
    """The row that would be written; `None` where it has gone."""
    if level == "site":
        return RuntimeSettings.load()
    model = _LEVELS[level]
    found: Target | None = model._default_manager.filter(pk__in=[pk]).first()
    return found


def settings_on(deployment: Deployment, level: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn of this deployment would read otherwise: a nearer level that says something itself goes on to say it.

    An empty value inherits: the levels above say what. Thresholds of the embedding model's profile stay empty.
    """
    found = dict(changes)
    if level != "deployment":
        own = deployment.config_overlay
        found = {key: value for key, value in found.items() if own.get(key) is None}
    if level == "site":
        agent = deployment.agent
        found = {k: v for k, v in found.items() if getattr(agent, k) in (None, "")}
        return found
    agent_above = deployment.agent if level == "deployment" else None
    above = {each.name: each.value for each in inherited_settings(agent_above)}
    return {key: above[key] if value in (None, "") else value for key, value in found.items()}


def write_changes(target: Target, changes: Mapping[str, Any]) -> None:
    """Raises `ValidationError` where the row would not be valid."""
    if isinstance(target, Deployment):
        overlay = {**target.config_overlay, **changes}
        target.config_overlay = {k: v for k, v in overlay.items() if v not in (None, "")}
    else:
        for name, value in changes.items():
            setattr(target, name, value)
    target.full_clean()
    target.save()
