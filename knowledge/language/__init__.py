"""Words of French and English, in one place: folding, tokens, stems, word classes, languages, and how people type.

`words` folds, stems and classes words; `numbers` reads values; `spelling` knows how words are written and mends them;
`typed` reads a question as it was typed. Imports the standard library, PyStemmer, py3langid and the frequencies of
pyspellchecker; no other module of the project. Nothing else folds, stems or keeps a list of small words. The words are
data (`data/fr/`, `data/en/`): another language is a folder there, a stemmer and its code in `words`.
"""
