"""Words of French and English, in one place: folding, tokens, stems, word classes, which language a text is in.

Public: every module. Imports the standard library, PyStemmer and py3langid; no other module of the project. Nothing else folds,
stems or keeps a list of small words. The words themselves are data (`words/fr.toml`, `words/en.toml`): another language
is a file there, a stemmer in `stemming` and its code in `classes.LANGUAGES`.
"""
