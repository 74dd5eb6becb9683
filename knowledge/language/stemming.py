"""The stem that the forms of a word share, by the Snowball stemmers of PyStemmer. Pure.

Words come folded (`folding.fold`); the stemmers do not need the accents.
"""

import threading

import Stemmer

_STEMMERS = {"fr": Stemmer.Stemmer("french"), "en": Stemmer.Stemmer("english")}
_stemming = threading.Lock()  # a stemmer has a state of its own


def stem(word: str, language: str) -> str:
    """The stem of a word of one language."""
    with _stemming:
        return str(_STEMMERS[language].stemWord(word))


def common_stem(word: str) -> str:
    """The stem of a word whose language is not known: each language's stemmer in turn."""
    for language in _STEMMERS:
        word = stem(word, language)
    return word
