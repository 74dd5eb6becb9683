"""Answers we already have, and the second key that guards them.

Public: `answers` (validated ones), `recall` and `learning` (the memory, asked and taught), `second_key`, `unanswered`,
`choices`, `loops`, `files`. `contradiction` holds the rules that `answers.duplicates` warns by. Imports `knowledge` and
`agents`; never `chat`.
"""
