"""The simple thing that every measure of answers runs beside the product: a page of plain code, no database, no rules.

Passages of about 180 words under one heading, the document's title and headings in front; cosine of the same embedding
model and BM25 over Snowball stems, each standardised over all passages, and added. The best passages are shown whole.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import Stemmer

from knowledge.embeddings.base import Embedder, Purpose
from knowledge.readers.base import ParsedDocument

PASSAGE_WORDS = 180
_K1, _B = 1.2, 0.75
_WORD = re.compile(r"\w+")

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BaselinePassage:
    document: str
    heading: str
    text: str


def passages_of(name: str, parsed: ParsedDocument) -> Iterator[BaselinePassage]:
    """The passages of one document; a paragraph is never cut."""
    for headings, blocks in groupby(parsed.blocks, key=lambda block: block.headings):
        heading = " > ".join(dict.fromkeys((parsed.title, *headings)))
        held: list[str] = []
        for block in blocks:
            text = f"{block.question}\n\n{block.text}" if block.question else block.text
            if held and sum(len(each.split()) for each in (*held, text)) > PASSAGE_WORDS:
                yield BaselinePassage(name, heading, "\n\n".join(held))
                held = []
            held.append(text)
        if held:
            yield BaselinePassage(name, heading, "\n\n".join(held))


class Baseline:
    """An index in memory over the passages of some documents in one language (`french`, `english`)."""

    def __init__(self, passages: Iterable[BaselinePassage], embedder: Embedder, language: str) -> None:
        self.passages = list(passages)
        self._embedder = embedder
        self._stem = Stemmer.Stemmer(language).stemWord
        texts = [f"{passage.heading}\n{passage.text}" for passage in self.passages]
        self._rows = embedder.embed(texts, purpose=Purpose.PASSAGE)
        self._counts = [Counter(self._words(text)) for text in texts]
        self._lengths = np.array([sum(counts.values()) for counts in self._counts], dtype=np.float64)
        self._having = Counter(word for counts in self._counts for word in counts)

    def search(self, question: str, limit: int) -> list[BaselinePassage]:
        """The best passages, best first."""
        vector = self._embedder.embed_one(question, purpose=Purpose.QUERY)
        scores = _standardised(self._rows @ vector) + _standardised(self._bm25(self._words(question)))
        return [self.passages[at] for at in np.argsort(-scores, kind="stable")[:limit]]

    def _words(self, text: str) -> list[str]:
        return [self._stem(word) for word in _WORD.findall(text.lower())]

    def _bm25(self, words: Sequence[str]) -> Scores:
        total = np.zeros(len(self.passages))
        size = _K1 * (1 - _B + _B * self._lengths / self._lengths.mean())
        for word in set(words):
            having = self._having[word]
            rarity = np.log1p((len(self.passages) - having + 0.5) / (having + 0.5))
            count = np.array([counts[word] for counts in self._counts])
            total += rarity * count * (_K1 + 1) / (count + size)
        return total


def _standardised(scores: npt.NDArray[np.floating]) -> Scores:
    return np.asarray((scores - scores.mean()) / (scores.std() or 1.0), dtype=np.float64)
