"""Application configuration of `chat`: connects its signals."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChatConfig(AppConfig):
    name = "chat"
    verbose_name = _("Conversations")

    def ready(self) -> None:
        from chat import signals  # noqa: F401
