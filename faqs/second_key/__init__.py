"""The second key: do a stored question and an asked one ask for the same thing?

`agreement` gives the verdict of the rules, `decision` turns both keys and may ask a model behind them. Below them: a text
is brought to one form (`text`, with `lexicon/*.toml` read by `lexicon`), read (`reading`) and compared (`comparison`).
Imports `knowledge.language` and `agents.llm`; never reads or writes the database.
"""
