"""Stored answers, and the second key that guards them. Imports `knowledge` and `agents`; never `chat`.

Validated answers: `answers`, `answer_points`, `precedence`, `neighbours`, `csv`. The memory: `recall` reads it,
`learning` teaches it, `memory` writes it. `origins`: what both were made from. `unanswered`: questions without one.
"""
