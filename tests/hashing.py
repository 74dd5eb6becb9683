"""For tests only: a deterministic embedder that needs no model, where texts that share words lie close.

Words and their character trigrams are hashed into signed buckets; case and accents are folded. Its cosines mean nothing
beyond "similar spelling", so it must never serve real questions.
"""

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np

from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.language.words import fold, words

_WORD_WEIGHT = 2.0


class HashingEmbedder(Embedder):
    def __init__(self, *, dimensions: int = 256) -> None:
        self._recipe = Recipe(model="hashing", dimensions=dimensions)

    @property
    def recipe(self) -> Recipe:
        return self._recipe

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self._recipe.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(fold(text)):
                code = crc32(feature.encode())
                row[(code >> 1) % len(row)] += weight if code & 1 else -weight
            if not row.any():  # every feature met its opposite
                row[0] = 1.0
        return rows


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in words(text) or [text]:
        yield f"word {word}", _WORD_WEIGHT
        padded = f"_{word}_"
        for start in range(len(padded) - 2):
            yield padded[start : start + 3], 1.0
