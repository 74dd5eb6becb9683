"""Answers we already have, and the second key that guards them.

Public: `agreement`. Imports `knowledge` and `agents`; never `chat`.
"""
