"""Do two validated answers contradict each other, where both could be given in the same situation? Pure rules.

Owns the reading of a question with its answer (`stance` out of `facts`), what tells two questions apart (`together`),
what two answers cannot both say (`clash`) and its words (`words.toml`, `translations.toml`). Public: `warning`. Reuses
the second key's lexicon and quantities. Must not read or write the database; imports no model.
"""
