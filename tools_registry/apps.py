"""Application configuration of `tools_registry`: imports the module `tools` of every installed app, and checks what the
operator configured.
"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class ToolsRegistryConfig(AppConfig):
    name = "tools_registry"
    verbose_name = _("Outils")

    def ready(self) -> None:
        from tools_registry import index  # noqa: F401  # its signals

        autodiscover_modules("tools")


@checks.register()
def check_tools(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[checks.CheckMessage]:
    found: list[checks.CheckMessage] = []
    servers = settings.MCP_STDIO_SERVERS
    right = isinstance(servers, dict) and all(
        isinstance(line, list) and line and all(isinstance(part, str) for part in line) for line in servers.values()
    )
    if not right:
        hint = 'Write it as JSON: {"files": ["/usr/bin/mcp-files", "/srv"]}.'
        said = "MCP_STDIO_SERVERS is not an object of command lines."
        found.append(checks.Error(said, hint=hint, id="tools_registry.E002"))
    return found
