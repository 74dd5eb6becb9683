"""Stored answers, and the second key that guards them.

Validated answers: `answers` writes them, `answer_points` indexes them, `precedence` withdraws older answers to the same
question, `validity` confirms them before they are given, `neighbours` finds those that ask the same, `csv` imports and
exports them. The memory: `recall` reads it and counts its uses, `learning` teaches it, `memory` writes it and deletes
what expired, `origins` records what its entries were made from. `unanswered` stores questions without a good answer.
Imports `knowledge` and `agents`; never `chat`.
"""
