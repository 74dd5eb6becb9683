"""The admin's pages, loaded where they are wanted: by the routing table and by the system checks.

A worker, and a command that needs neither, is spared 30 MB and a third of its start (`benchmarks/idle`).
"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class AdminOnDemand(SimpleAdminConfig):
    """Django's own, whose checks look at every page, also where nothing has loaded them before."""

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Sequence[AppConfig] | None, **options: Any) -> Sequence[checks.CheckMessage]:
    admin.autodiscover()
    found: Sequence[checks.CheckMessage] = check_admin_app(app_configs, **options)
    return found
