"""Dates where the interface differs from Django's own: one module a language."""
