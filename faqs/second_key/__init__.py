"""The second key: do a stored question and an asked one ask for the same thing?

`same_question` decides it, by rules alone and by both keys; `verifier` is the model that it may ask. Below them: a text
is rewritten to one form by the rules of `lexicon` (`lexicon/*.toml`), read (`reading`) and compared (`comparison`).
Imports `knowledge.language` and `agents.llm`; never reads or writes the database.
"""
