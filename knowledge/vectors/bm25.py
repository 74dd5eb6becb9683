"""Words for search: what a text says as weighted terms, and an index of terms in memory. Pure: no ORM, no network.

A word counts as its stem (French, then English) and, at half the weight, as its first letters. The score of a point is
BM25 divided by what a point of nothing but the question's words could reach: the *overlap*, between 0 and 1. What
depends on the point alone is computed when it is written (`document_terms`); a word's rarity, when a question is asked.
"""

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from knowledge.language.words import common_stem, fold, word_class, words
from knowledge.vectors.payloads import searched_fields

Ids = npt.NDArray[np.uint32]
Weights = npt.NDArray[np.float32]

_SATURATION = 0.9
_LENGTH_PENALTY = 0.5
_TYPICAL_LENGTH = 100.0
_ROOT_LETTERS = 4
_ROOT_WEIGHT = 0.5
#: Bounds the work for one question; further words are not looked up.
MAX_QUESTION_WORDS = 64

_STOP_WORDS = word_class("stop_words")
_GROUPED_NUMBER = re.compile(r"(?<![\w.,-])\d{1,4}(?:[ .-]\d{2,4})+(?![\w-])")


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    ids: Ids
    weights: Weights

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, weights: Mapping[int, float]) -> "Terms":
        ids = np.array(sorted(weights), dtype=np.uint32)
        # Rounded as they are stored, so that a point weighs the same wherever it is read.
        rounded = np.array([weights[i] for i in ids.tolist()], dtype=np.float16)
        return cls(ids, rounded.astype(np.float32))

    def to_bytes(self) -> bytes:
        return self.ids.astype("<u4").tobytes() + self.weights.astype("<f2").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Terms":
        count = len(data) // 6
        return cls(
            np.frombuffer(data, dtype="<u4", count=count),
            np.frombuffer(data, dtype="<f2", offset=4 * count).astype(np.float32),
        )


def content_words(text: str) -> list[str]:
    """The words of `text` that have content, without accents; numbers written in groups once more as one word."""
    plain = fold(text).replace("æ", "ae")  # as the terms are stored
    numbers = ("".join(words(found)) for found in _GROUPED_NUMBER.findall(plain))
    return [*(word for word in words(plain) if word not in _STOP_WORDS), *numbers]


@lru_cache(maxsize=65_536)
def word_terms(word: str) -> tuple[tuple[int, float], ...]:
    """The terms of a word of `content_words`, with what each counts."""
    terms = [(term_id(common_stem(word)), 1.0)]
    if not word.isdigit() and len(word) >= _ROOT_LETTERS:
        terms.append((term_id(f"{word[:_ROOT_LETTERS]}-"), _ROOT_WEIGHT))
    return tuple(terms)


def question_terms(text: str) -> Terms:
    weights: dict[int, float] = {}
    for word in content_words(text)[:MAX_QUESTION_WORDS]:
        weights.update(word_terms(word))
    return Terms.of(weights)


def document_terms(payload: Mapping[str, object]) -> Terms:
    """The terms of a point: how often it says each, levelled off, and less in a long text than in a short one."""
    counts: dict[int, float] = {}
    length = 0.0
    for field, weight in searched_fields(payload).items():
        text = payload.get(field)
        if not isinstance(text, str):
            continue
        for word in content_words(text):
            length += weight
            for term, _weight in word_terms(word):
                counts[term] = counts.get(term, 0.0) + weight
    relative = 1.0 - _LENGTH_PENALTY + _LENGTH_PENALTY * length / _TYPICAL_LENGTH
    norm = _SATURATION * relative
    return Terms.of({term: count / (count + norm) for term, count in counts.items()})


def rarity(points: int, having: int) -> float:
    """How much a term tells that `having` of `points` points have."""
    return math.log1p((points - having + 0.5) / (having + 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Postings sorted by term: those of `ids[i]` are `rows[starts[i]:starts[i + 1]]`."""

    ids: Ids
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float16]

    @classmethod
    def of(cls, ids: Ids, rows: npt.NDArray[np.int32], weights: npt.NDArray[np.float16]) -> "_Segment":
        order = np.argsort(ids, kind="stable")
        unique, first = np.unique(ids[order], return_index=True)
        return cls(unique, np.append(first, len(ids)), rows[order], weights[order])

    @property
    def all_ids(self) -> Ids:
        return np.repeat(self.ids, np.diff(self.starts))

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.starts.nbytes + self.rows.nbytes + self.weights.nbytes

    def find(self, term: int) -> slice:
        at = int(np.searchsorted(self.ids, np.uint32(term)))
        if at == len(self.ids) or int(self.ids[at]) != term:
            return slice(0, 0)
        return slice(int(self.starts[at]), int(self.starts[at + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Which rows have which terms; every change gives another one. Segments that grow alike are merged, so few stay."""

    segments: tuple[_Segment, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    def extended(self, start: int, documents: Sequence[Terms]) -> "Postings":
        """With `documents` as the rows from `start` on."""
        sizes = [len(terms) for terms in documents]
        if not sum(sizes):
            return self
        rows = np.repeat(np.arange(start, start + len(sizes), dtype=np.int32), sizes)
        ids = np.concatenate([terms.ids for terms in documents])
        weights = np.concatenate([terms.weights for terms in documents]).astype(np.float16)
        segments = [*self.segments, _Segment.of(ids, rows, weights)]
        while len(segments) > 1 and len(segments[-2].rows) < 2 * len(segments[-1].rows):
            segments[-2:] = [_merged(segments[-2:])]
        return Postings(tuple(segments))

    def compacted(self, kept: npt.NDArray[np.intp], size: int) -> "Postings":
        """Without the rows that are not in `kept`, which are numbered anew in their order."""
        if not self.segments:
            return self
        renumbered = np.full(size, -1, dtype=np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        whole = _merged(self.segments)
        rows = renumbered[whole.rows]
        standing = rows >= 0
        return Postings((_Segment.of(whole.all_ids[standing], rows[standing], whole.weights[standing]),))

    def having(self, term: int, alive: npt.NDArray[np.bool_] | None = None) -> int:
        """How many rows have a term; dead rows do not count."""
        found = [segment.rows[segment.find(term)] for segment in self.segments]
        return sum(len(rows) if alive is None else int(np.count_nonzero(alive[rows])) for rows in found)

    def add_to(self, scores: Weights, worths: Mapping[int, float]) -> None:
        """Add to the score of each row, in place, what the terms are worth there."""
        for term, worth in worths.items():
            for segment in self.segments:
                at = segment.find(term)
                scores[segment.rows[at]] += np.float32(worth) * segment.weights[at]

    def overlaps(self, question: Terms, *, size: int, live: int, alive: npt.NDArray[np.bool_] | None) -> Weights:
        """The overlap of each of `size` rows with the question; dead rows count for nothing."""
        scores: Weights = np.zeros(size, dtype=np.float32)
        worths = {
            term: weight * rarity(live, self.having(term, alive))
            for term, weight in zip(question.ids.tolist(), question.weights.tolist(), strict=True)
        }
        self.add_to(scores, worths)
        if (best := sum(worths.values())) > 0:
            scores /= np.float32(best)
        if alive is not None:
            scores[~alive] = 0.0
        return scores


def _merged(segments: Sequence[_Segment]) -> _Segment:
    return _Segment.of(
        np.concatenate([segment.all_ids for segment in segments]),
        np.concatenate([segment.rows for segment in segments]),
        np.concatenate([segment.weights for segment in segments]),
    )


def term_id(text: str) -> int:
    """The number that a term is known by."""
    return zlib.crc32(text.encode())
