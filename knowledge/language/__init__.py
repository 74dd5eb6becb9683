"""Words of French and English, in one place: folding, tokens, stems, word classes, which language a text is in, how
people type.

Public: every module. Imports the standard library, PyStemmer and py3langid, and reads the word frequencies that
pyspellchecker brings; no other module of the project. Nothing else folds, stems or keeps a list of small words. The
words themselves are data (`words/fr/`, `words/en/`): another language is a folder there, a stemmer in `stemming` and
its code in `classes.LANGUAGES`.
"""
