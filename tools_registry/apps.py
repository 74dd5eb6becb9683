"""Application configuration of `tools_registry`: imports the module `tools` of every installed app."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class ToolsRegistryConfig(AppConfig):
    name = "tools_registry"
    verbose_name = _("Outils")

    def ready(self) -> None:
        from tools_registry import checks, signals  # noqa: F401

        autodiscover_modules("tools")
