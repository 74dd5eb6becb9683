"""Answers we already have, and the second key that guards them.

Public: `agreement`, `learning`, `recall`, `indexing`, `unanswered`. Imports `knowledge` and `agents`; never `chat`.
"""
