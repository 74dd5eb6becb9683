"""Application configuration of `chat`: connects its signals.

`chat.archive` teaches SQLite a function when a connection opens: it has to be there before the first one does,
and a process may talk to its database long before it is asked for a page.
"""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ChatConfig(AppConfig):
    name = "chat"
    verbose_name = _("Conversations")

    def ready(self) -> None:
        from chat import signals  # noqa: F401
