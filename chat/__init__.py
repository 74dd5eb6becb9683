"""The conversation: the path of a question, its runner, its thread, its page and API.

Public: `turn`, `runner`, `thread`. The top of the import order; nothing imports it but `config`.
"""
