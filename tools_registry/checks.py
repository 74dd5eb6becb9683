"""System checks of `tools_registry`: are the selectors, the local MCP servers and the hand-over usable as configured?"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from agents.settings import ToolMode
from tools_registry.selection import tool_selector


@checks.register()
def check_tools(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[checks.CheckMessage]:
    return [*_selectors(), *_servers(), *_handover()]


def _selectors() -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    for mode in ToolMode.values:
        try:
            tool_selector(mode)
        except (ImproperlyConfigured, ImportError, KeyError, TypeError) as error:
            found.append(
                checks.Error(f"The setting TOOL_SELECTORS is wrong for {mode!r}: {error}", id="tools_registry.E001")
            )
    return found


def _servers() -> list[checks.CheckMessage]:
    servers = settings.MCP_STDIO_SERVERS
    right = isinstance(servers, dict) and all(
        isinstance(line, list) and line and all(isinstance(part, str) for part in line) for line in servers.values()
    )
    if right:
        return []
    return [
        checks.Error(
            "MCP_STDIO_SERVERS is not an object of command lines.",
            hint='Write it as JSON: {"files": ["/usr/bin/mcp-files", "/srv"]}.',
            id="tools_registry.E002",
        )
    ]


def _handover() -> list[checks.CheckMessage]:
    if not settings.HANDOVER_EMAILS or "console" not in settings.EMAIL_BACKEND:
        return []
    return [
        checks.Warning(
            "HANDOVER_EMAILS is set, but mail is only written to standard output.",
            hint="Set EMAIL_URL to a mail server.",
            id="tools_registry.W001",
        )
    ]
