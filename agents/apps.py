"""Application configuration of `agents`: registers its system checks, the making of the roles and the log of changes."""

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = _("Agents")

    def ready(self) -> None:
        from agents.history import log_everything
        from agents.llm import base  # noqa: F401
        from agents.roles import install_roles
        from agents.texts import count_in_french

        log_everything()

        # Permissions are made app by app: at the last one that has tables, all of them are there.
        last = [each for each in apps.get_app_configs() if each.models_module is not None][-1]
        post_migrate.connect(install_roles, sender=last)
        count_in_french()
