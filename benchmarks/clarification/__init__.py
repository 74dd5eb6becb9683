"""How often "did you mean A or B?" is asked, and holds what was meant."""

import os

import django

# Here, before any module of the benchmark imports a model.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()
