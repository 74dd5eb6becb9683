"""Application configuration of `knowledge`: connects the cleanup signals."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = _("Connaissances")

    def ready(self) -> None:
        from knowledge import checks, signals, synonyms  # noqa: F401
