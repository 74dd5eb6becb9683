"""How often search finds the right passage, for each local embedding model."""

import os

import django

# Here, before any module of the benchmark imports a model.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
