"""Scoring tools for a question: one product over one vector a tool, plus the words that both share. Pure; no ORM.

A tool's vector is the sum of its texts' vectors with fixed weights, the mean of its example phrasings counting most,
made unit: so any number of phrasings costs nothing when a question is asked. The lexical part is BM25 over folded word
beginnings, divided by the weight of the question's words; it decides between tools that lie as near. The numbers were
measured on public data (`benchmarks/tools/README.md`); none of them is staff's to change.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from knowledge.embeddings.base import Vectors
from knowledge.language.words import fold, meanings_of, word_class, words
from tools_registry.tool import ToolSpec

Scores = npt.NDArray[np.float32]
Weights = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]


class TextKind(StrEnum):
    """What a text of a tool is; stored with its vector."""

    DESCRIPTION = "description"
    NAME = "name"
    PARAMETERS = "parameters"
    EXAMPLE = "example"


#: What the texts of one kind weigh together in a tool's vector.
WEIGHTS = {TextKind.DESCRIPTION: 1.0, TextKind.NAME: 0.5, TextKind.PARAMETERS: 0.25, TextKind.EXAMPLE: 2.0}
#: What the shared words weigh beside the cosine.
LEXICAL_WEIGHT = 0.4
#: The question's weight of words at which the two parts stand in that proportion.
_QUESTION_WEIGHT = 5.0
_SATURATION, _LENGTH = 1.2, 0.75
_STEM = 5
#: Up to so many cells (16 MB), words by tools stand in a matrix: a row is added in a third of the time of a list.
_DENSE_CELLS = 4_000_000
#: Up to so many best scores are found one after the other, which is faster than a partition.
_FEW = 16
#: Before the name of a meaning, which no word begins with.
_MEANING = "="
_STOP_WORDS = word_class("tool_stop_words")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class ToolText:
    kind: TextKind
    text: str


def texts_of(spec: ToolSpec) -> list[ToolText]:
    """Everything of a tool that is embedded, in a stable order."""
    texts = [ToolText(TextKind.NAME, " ".join([spoken_name(spec.name), *spec.keywords]))]
    if spec.description.strip():
        texts.insert(0, ToolText(TextKind.DESCRIPTION, spec.description))
    if described := parameter_text(spec):
        texts.append(ToolText(TextKind.PARAMETERS, described))
    texts.extend(ToolText(TextKind.EXAMPLE, example) for example in dict.fromkeys(spec.examples) if example.strip())
    return texts


def parameter_text(spec: ToolSpec) -> str:
    properties = spec.parameters.get("properties")
    if not isinstance(properties, dict):
        return ""
    return ". ".join(
        f"{spoken_name(name)}: {inner['description']}"
        for name, inner in properties.items()
        if isinstance(inner, dict) and isinstance(inner.get("description"), str)
    )


def spoken_name(name: str) -> str:
    """`MapTool_find-route` as words: "Map Tool find route"."""
    return " ".join(words(_CAMEL.sub(" ", name))) or name


def tool_vector(kinds: Sequence[TextKind], vectors: Vectors) -> Vectors:
    """The one vector of a tool from those of its texts."""
    counts = Counter(kinds)
    weights = np.array([WEIGHTS[kind] / counts[kind] for kind in kinds], dtype=np.float32)
    summed: Vectors = weights @ vectors
    norm = float(np.linalg.norm(summed))
    return summed / norm if norm else summed


class WordIndex:
    """BM25 over the tools' words. A small one is a matrix of words by tools, a large one posting lists."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        documents = [_counted(_tool_text(spec)) for spec in specs]
        self.size = len(documents)
        lengths = [sum(document.values()) for document in documents]
        mean = (sum(lengths) / self.size if self.size else 0.0) or 1.0
        postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for position, document in enumerate(documents):
            damping = _SATURATION * (1 - _LENGTH + _LENGTH * lengths[position] / mean)
            for word, count in (document + _meant(document)).items():
                saturated = count * (_SATURATION + 1) / (count + damping)
                postings[word].append((position, saturated))
        self._unknown = self._idf(0)
        #: Of each word: its number, and what it weighs.
        self._words = {word: (number, self._idf(len(found))) for number, (word, found) in enumerate(postings.items())}
        self._postings: list[tuple[Positions, Weights]] = [
            (
                np.array([position for position, _value in found], dtype=np.intp),
                np.array([self._words[word][1] * value for _position, value in found]),
            )
            for word, found in postings.items()
        ]
        self._dense = self._as_matrix()

    def scores(self, question: str) -> Scores:
        """The lexical part alone."""
        scores: Scores = np.zeros(self.size, dtype=np.float32)
        self.add_to(scores, question)
        return scores

    def add_to(self, scores: Scores, question: str) -> None:
        """Add the lexical part of each tool's score, in place."""
        numbers: list[int] = []
        weight = 0.0
        for word in set(words_of(question)):
            entry = self._words.get(word)
            # A word that no tool has is looked up by what it means: "renomme" finds "rename".
            meant = [] if entry is not None else self._meant(word)
            numbers.extend(number for number, _weight in meant)
            if entry is not None:
                numbers.append(entry[0])
                weight += entry[1]
            else:
                weight += max((each for _number, each in meant), default=self._unknown)
        if not numbers:
            return
        factor = LEXICAL_WEIGHT / (_QUESTION_WEIGHT * math.sqrt(weight))
        if self._dense is not None:
            scores += np.full(len(numbers), factor, np.float32) @ self._dense.take(numbers, 0)
        else:
            found = [self._postings[number] for number in numbers]
            positions, values = zip(*found, strict=True)
            counted = np.bincount(np.concatenate(positions), np.concatenate(values), minlength=self.size)
            scores += counted * factor

    def _meant(self, word: str) -> list[tuple[int, float]]:
        found = (self._words.get(_MEANING + meaning) for meaning in meanings_of(word))
        return [entry for entry in found if entry is not None]

    def _as_matrix(self) -> Scores | None:
        if len(self._words) * self.size > _DENSE_CELLS:
            return None
        matrix: Scores = np.zeros((len(self._words), self.size), dtype=np.float32)
        for row, (positions, values) in zip(matrix, self._postings, strict=True):
            row[positions] = values
        return matrix

    def _idf(self, documents: int) -> float:
        return math.log(1 + (self.size - documents + 0.5) / (documents + 0.5))


class Ranking:
    """Tools with their vectors and words, ready to be scored."""

    def __init__(self, specs: Sequence[ToolSpec], matrix: Vectors) -> None:
        self.matrix = np.ascontiguousarray(matrix, dtype=np.float32)
        self.words = WordIndex(specs)
        self.names = tuple(spec.name for spec in specs)
        self.position = {name: position for position, name in enumerate(self.names)}

    def scores(self, question_vector: Vectors, question: str) -> Scores:
        """Return the score of every tool, in order."""
        scores: Scores = self.matrix @ question_vector
        self.words.add_to(scores, question)
        return scores

    def vector(self, name: str) -> Vectors:
        row: Vectors = self.matrix[self.position[name]]
        return row


def best_positions(scores: Scores, limit: int) -> list[int]:
    """The positions of the `limit` highest scores, best first, ties by position."""
    if limit <= 0 or not len(scores):
        return []
    if limit <= _FEW and limit < len(scores):
        left, best = scores.copy(), []
        for _ in range(limit):
            position = int(left.argmax())
            best.append(position)
            left[position] = -np.inf
        return best
    if limit < len(scores):
        last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        near = (scores >= last).nonzero()[0].tolist()
    else:
        near = list(range(len(scores)))
    # A sort of Python's is stable, so ties stay in order.
    return sorted(near, key=scores.item, reverse=True)[:limit]


def words_of(text: str) -> list[str]:
    """Folded beginnings of the words that say something, in French and in English."""
    return [word[:_STEM] for word in words(fold(text)) if len(word) > 1 and word not in _STOP_WORDS]


def _tool_text(spec: ToolSpec) -> str:
    return " ".join([spoken_name(spec.name), spec.description, *spec.keywords, parameter_text(spec), *spec.examples])


def _meant(words_: Counter[str]) -> Counter[str]:
    """What a tool's words mean, in either language."""
    found: Counter[str] = Counter()
    for word, count in words_.items():
        for meaning in meanings_of(word):
            found[_MEANING + meaning] = max(found[_MEANING + meaning], count)
    return found


@lru_cache(maxsize=8192)
def _counted(text: str) -> Counter[str]:
    """Kept, since one tool that changes has all of them counted again."""
    return Counter(words_of(text))
