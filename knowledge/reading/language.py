"""The language that a document is written in, from samples over its whole length.

A code of two or three letters, or an empty string where there is too little text to tell. The model is loaded at first use and
takes 100 MB, which is why only what reads files calls this.
"""

from collections.abc import Sequence
from itertools import islice

from knowledge.parsing.base import ParsedDocument

#: Below, names and figures outweigh the language.
_ENOUGH_LETTERS = 60
_SAMPLES = 40
_SAMPLE_CHARACTERS = 500


def language_of(parsed: ParsedDocument) -> str:
    blocks = parsed.blocks
    chosen = islice(blocks, 0, None, max(1, len(blocks) // _SAMPLES))
    return detect_language([f"{block.question} {block.text}" for block in chosen])


def detect_language(texts: Sequence[str]) -> str:
    sample = " ".join(text[:_SAMPLE_CHARACTERS] for text in texts[: 2 * _SAMPLES])
    if sum(map(str.isalpha, sample)) < _ENOUGH_LETTERS:
        return ""
    import py3langid  # loads its model where it is imported first

    code, _score = py3langid.classify(sample)
    return str(code)
