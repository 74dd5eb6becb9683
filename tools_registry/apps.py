"""Application configuration of `tools_registry`: imports the module `tools` of every installed app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class ToolsRegistryConfig(AppConfig):
    name = "tools_registry"
    verbose_name = _("Outils")

    def ready(self) -> None:
        from agents.staff.agent_files import register_agent_part
        from tools_registry import checks, signals  # noqa: F401
        from tools_registry.agent_parts import PART

        register_agent_part(PART)

        autodiscover_modules("tools")
