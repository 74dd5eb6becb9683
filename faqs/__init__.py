"""Stored answers, and the second key that guards them.

Validated answers: `answers` writes them, `answer_points` indexes them, `precedence` withdraws older answers to the same
question, `validity` confirms them before they are given, `neighbours` finds those that ask the same, `csv` and
`previews` import and export them. The memory: `recall` reads it, `learning` teaches it, `memory` writes it, `origins`
records what its entries were made from. `unanswered` stores questions without a good answer, `review` lists what awaits
a person. Imports `knowledge` and `agents`; never `chat`.
"""
