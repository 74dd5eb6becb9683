"""The second key: do a stored question and an asked one ask for the same thing?

Owns the reading of a question (`reading` out of `text`, `items`, `quantities`), the reasons to refuse (`vetoes`), their
words (`disagreement`) and the data of both languages (`lexicon/*.toml`). Public: `agreement` (the verdict of the
rules), `disagreement` (one reason), `decision` (both keys) and `verifier` (a model behind them). Imports
`knowledge.language` and, for the verifier, `agents.llm`. Must not read or write the database; but for the verifier
everything is pure.
"""
