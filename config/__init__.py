"""Wiring: settings, URL and ASGI routing, the Celery application. No behaviour, and no app imports it."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
