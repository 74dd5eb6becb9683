"""Application configuration of `knowledge`: connects the cleanup signals."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = _("Connaissances")

    def ready(self) -> None:
        from agents.history import register_restorer
        from knowledge import checks, signals  # noqa: F401
        from knowledge.indexing.chunks import restore_chunk
        from knowledge.synonyms import restore_synonym

        register_restorer("knowledge.chunk", restore_chunk)
        register_restorer("knowledge.synonym", restore_synonym)
