"""Words of French and English, in one place: folding, tokens, stems, word classes, languages, and how people type.

Imports no other module of the project, and nothing else folds, stems or keeps a list of small words. The words are data
(`data/fr/`, `data/en/`): another language is a folder there, a stemmer and its code in `words`.
"""
