"""Wiring: settings, URL and ASGI routing, the Celery application; and `desk`, the admin of the whole site. No app
imports it.
"""

from config.celery import app as celery_app

__all__ = ["celery_app"]
