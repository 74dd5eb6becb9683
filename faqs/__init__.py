"""Answers we already have, and the second key that guards them.

Validated answers: `answers` writes them, `answer_points` indexes them, `precedence` has the newest human word win,
`validity` confirms them before they are given, `neighbours` finds those that ask the same, `csv` and `previews` import
and export them. The memory: `recall` asks it, `learning` teaches it, `memory` writes it, `origins` says what its entries
were made from. `unanswered` keeps what was asked in vain, `review` lists what waits for a person. Imports `knowledge`
and `agents`; never `chat`.
"""
