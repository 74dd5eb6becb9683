"""Wiring: settings, URL and ASGI routing, the Celery application. No behaviour, and no app imports it."""
