"""Embedders that write down how many texts they embedded, also when their process is killed right after."""

import os
from collections.abc import Sequence
from pathlib import Path

from knowledge.embeddings.base import Vectors
from knowledge.embeddings.local import UniversalSentenceEncoder
from tests.hashing import HashingEmbedder


def count(texts: int) -> None:
    with Path(os.environ["BENCH_COUNTS"]).open("a", encoding="ascii") as file:
        file.write(f"{texts}\n")


def counted() -> int:
    path = Path(os.environ["BENCH_COUNTS"])
    return sum(map(int, path.read_text().split())) if path.exists() else 0


class CountingHashing(HashingEmbedder):
    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        count(len(texts))
        return super()._embed_batch(texts)


class CountingUse(UniversalSentenceEncoder):
    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        count(len(texts))
        return super()._embed_batch(texts)
