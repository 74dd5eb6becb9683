"""Answers we already have, and the second key that guards them.

Public: `answers` (validated ones), `recall` and `learning` (the memory, asked and taught), `second_key`, `unanswered`,
`csv`. Imports `knowledge` and `agents`; never `chat`.
"""
