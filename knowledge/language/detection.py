"""Which language a text is in: a question by its small words, a document by a model of letter sequences."""

import re
from collections.abc import Sequence

from knowledge.language.classes import LANGUAGES, word_class
from knowledge.language.folding import fold

_LETTERS = re.compile(r"[a-z]+")
_SIGNATURES = [word_class("signature", code) for code in LANGUAGES]
#: Below, names and figures outweigh the language.
_ENOUGH_LETTERS = 60
#: So many passages, spread over a document, tell its language; of each its beginning is read.
SAMPLES = 40
_SAMPLE_CHARACTERS = 500


def language_of(text: str) -> str:
    """The code of the language whose small words a question has most of; empty when none, or two alike."""
    found = set(_LETTERS.findall(fold(text)))
    counts = [len(found & small) for small in _SIGNATURES]
    most = max(counts)
    return "" if counts.count(most) > 1 else LANGUAGES[counts.index(most)]


def document_language(passages: Sequence[str]) -> str:
    """A code of two or three letters, of any language; empty where there is too little text to tell.

    The model is loaded at first use and takes 100 MB, which is why only what reads files calls this.
    """
    sample = " ".join(text[:_SAMPLE_CHARACTERS] for text in passages[: 2 * SAMPLES])
    if sum(map(str.isalpha, sample)) < _ENOUGH_LETTERS:
        return ""
    import py3langid  # loads its model where it is imported first

    code, _score = py3langid.classify(sample)
    return str(code)
