"""Which of several agents answers a question."""

import os

import django

# Here, before any module of the benchmark imports a model.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
