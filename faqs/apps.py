"""Application configuration of `faqs`: connects the memory to the passages it was made from."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FaqsConfig(AppConfig):
    name = "faqs"
    verbose_name = _("Réponses validées")

    def ready(self) -> None:
        from faqs.memory import signals  # noqa: F401
