"""Answers we already have, and the second key that guards them.

Public: `second_key` (see there), `learning`, `recall`, `indexing`, `duplicates`, `unanswered`. Imports `knowledge` and `agents`; never `chat`.
"""
