"""Application configuration of `faqs`."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class FaqsConfig(AppConfig):
    name = "faqs"
    verbose_name = _("Réponses validées")
