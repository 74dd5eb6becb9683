"""Scoring tools for a question: one product over one vector a tool, plus BM25 over the words that both share. Pure.

A tool's vector is the sum of its texts' with fixed weights, measured on public data (`benchmarks/tools/README.md`).
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from django.utils.translation import gettext as _

from knowledge.embeddings.base import Vectors
from knowledge.language.words import fold, meanings_of, word_class, words
from knowledge.vectors.bm25 import Postings, Terms, rarity, term_id
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
    """BM25 over the tools' words."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        documents = [_counted(_tool_text(spec)) for spec in specs]
        self.size = len(documents)
        lengths = [sum(document.values()) for document in documents]
        mean = (sum(lengths) / self.size if self.size else 0.0) or 1.0
        terms = []
        for document, length in zip(documents, lengths, strict=True):
            damping = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
            counts = document + _meant(document)
            weights = {word: count * (_SATURATION + 1) / (count + damping) for word, count in counts.items()}
            terms.append(Terms.of({term_id(word): weight for word, weight in weights.items()}))
        self._postings = Postings().extended(0, terms)

    def scores(self, question: str) -> Scores:
        """The lexical part alone."""
        scores: Scores = np.zeros(self.size, dtype=np.float32)
        self.add_to(scores, question)
        return scores

    def add_to(self, scores: Scores, question: str) -> None:
        """Add the lexical part of each tool's score, in place."""
        worths: dict[int, float] = {}
        weight = 0.0
        for word in set(words_of(question)):
            # A word that no tool has is looked up by what it means: "renomme" finds "rename".
            found = self._worths([word]) or self._worths([_MEANING + meaning for meaning in meanings_of(word)])
            worths |= found
            weight += max(found.values(), default=rarity(self.size, 0))
        if worths:
            factor = LEXICAL_WEIGHT / (_QUESTION_WEIGHT * math.sqrt(weight))
            self._postings.add_to(scores, {term: factor * worth for term, worth in worths.items()})

    def _worths(self, words_: Sequence[str]) -> dict[int, float]:
        """How much each of the words tells that some tool has."""
        counts = {term: self._postings.having(term) for term in map(term_id, words_)}
        return {term: rarity(self.size, count) for term, count in counts.items() if count}


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


def best_positions(scores: Scores, limit: int) -> list[int]:
    """The positions of the `limit` highest scores, best first, ties by position."""
    best: list[int] = np.argsort(-scores, kind="stable")[: max(limit, 0)].tolist()
    return best


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


_SHORT, _BRIEF, _LONG = 40, 80, 1_200
_FEW_WORDS = 5
_ENOUGH_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Finding:
    text: str
    points: int


@dataclass(frozen=True, slots=True)
class QualityReport:
    score: int
    findings: tuple[Finding, ...]


def assess_tool(spec: ToolSpec) -> QualityReport:
    """How well a tool is described: 0 to 100 with what each lost point is for (seed 003, "Audit Sémantique")."""
    findings = [*_of_description(spec), *_of_parameters(spec), *_of_examples(spec)]
    lost = sum(finding.points for finding in findings)
    return QualityReport(score=max(0, 100 - lost), findings=tuple(findings))


def _of_description(spec: ToolSpec) -> list[Finding]:
    text, found = spec.description.strip(), []
    words = set(words_of(text))
    if len(text) < _SHORT:
        found.append(Finding(_("La description tient en quelques mots."), 30))
    elif len(text) < _BRIEF:
        found.append(Finding(_("La description est courte."), 10))
    elif len(text) > _LONG:
        found.append(Finding(_("La description est longue : elle pèse sur chaque question."), 10))
    if words and words <= set(words_of(spoken_name(spec.name))):
        found.append(Finding(_("La description ne fait que répéter le nom."), 20))
    elif len(words) < _FEW_WORDS:
        found.append(Finding(_("La description a peu de mots qui disent de quoi il s’agit."), 15))
    if word_class("telling_when").isdisjoint(word[:5] for word in fold(text).split()):
        found.append(Finding(_("La description ne dit pas quand utiliser l’outil."), 10))
    return found


def _of_parameters(spec: ToolSpec) -> list[Finding]:
    properties = spec.parameters.get("properties")
    if not isinstance(properties, dict) or not properties:
        return []
    bare = [
        name
        for name, inner in properties.items()
        if not (isinstance(inner, dict) and str(inner.get("description", "")).strip())
    ]
    if not bare:
        return []
    return [
        Finding(
            _("Paramètres sans description : %(names)s.") % {"names": ", ".join(bare)},
            max(5, round(25 * len(bare) / len(properties))),
        )
    ]


def _of_examples(spec: ToolSpec) -> list[Finding]:
    if not spec.examples:
        return [Finding(_("Aucune formulation d’exemple : c’est ce qui améliore le plus le choix."), 15)]
    if len(spec.examples) < _ENOUGH_EXAMPLES:
        return [Finding(_("Peu de formulations d’exemple ; cinq suffisent."), 5)]
    return []
