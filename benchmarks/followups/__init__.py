"""Which questions are follow-ups, and what is found for them."""

import os

import django

# Here, before any module of the benchmark imports a model.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
