"""Wiring: settings, URL and ASGI routing, the Celery application; and the two pages of the admin that look into every
app. No app imports it.
"""

import os

# Before numpy is loaded, in every process: the matrices of one question are small (on two threads they cost twice the
# processor time, `benchmarks/turns`), and on a busy machine the threads of an indexation wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from django.apps import AppConfig

from config.celery import app as celery_app

__all__ = ["SiteConfig", "celery_app"]


class SiteConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        """Register the checks of `check --deploy`, which Django collects before it reads the addresses."""
        from config import health  # noqa: F401
