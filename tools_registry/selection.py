"""`select_tools`: resident tools, then those that a mode finds for the question, and those used a moment ago.

Candidates have passed the permission wall. A mode is a backend with its database work in `prepare`; the rules are here.
A score is one product over one vector a tool, plus BM25 over the words that both share.
"""

import json
import math
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from agents.llm.base import LanguageModel, language_model
from agents.settings import Knobs, ToolMode
from knowledge.embeddings.base import Purpose, Recipe, Vectors, embedder
from knowledge.errors import CollectionMissingError
from knowledge.language.words import fold, meanings_of, word_class, words
from knowledge.thresholds import threshold_profile
from knowledge.vectors.base import Query, Wanted, vector_store
from knowledge.vectors.bm25 import Postings, Terms, rarity, term_id
from tools_registry.catalog import ToolList, all_tools, available_tools
from tools_registry.index import EXTERNAL_ALIAS, ask_for_index, indexed_vectors, parameter_text, spoken_name
from tools_registry.tool import ToolSpec

#: A resident tool takes room in every prompt (seed 003, step 2).
MAX_RESIDENT = 3
#: The score of a tool whose phrasing is the question itself.
EXACT = 1.0


Scores = npt.NDArray[np.float32]

#: What the shared words weigh beside the cosine.
LEXICAL_WEIGHT = 0.4
#: The question's weight of words at which the two parts stand in that proportion.
_QUESTION_WEIGHT = 5.0
_SATURATION, _LENGTH = 1.2, 0.75
_STEM = 5
#: Before the name of a meaning, which no word begins with.
_MEANING = "="
_STOP_WORDS = word_class("tool_stop_words")


class WordIndex:
    """BM25 over the tools' words."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        texts = ((spoken_name(s.name), s.description, *s.keywords, parameter_text(s), *s.examples) for s in specs)
        documents = [_counted(" ".join(each)) for each in texts]
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


class SelectionReason(StrEnum):
    RESIDENT = "resident"
    SIMILAR = "similar"
    RECENT = "recent"
    ALL = "all"
    NOT_OFFERED = ""


@dataclass(frozen=True, slots=True)
class SelectedTool:
    """A tool to offer, why, and its score where the mode gives one."""

    spec: ToolSpec
    score: float | None
    reason: SelectionReason


def effective_threshold(config: Knobs) -> float | None:
    """Staff's threshold, else the one of the embedding model in use, else none."""
    if config.tool_threshold is not None:
        return config.tool_threshold
    profile = threshold_profile(embedder().recipe.model)
    return None if profile is None else profile.tool


class ToolSelector(ABC):
    """Ranks candidates for a question."""

    @property
    def uses_database(self) -> bool:
        """Whether `rank` may read the database; where it does not, it may wait for the network."""
        return True

    def prepare(self, candidates: ToolList) -> None:  # noqa: B027  # most modes have nothing to do
        """Do the database work before `rank`: check that the ranker's data is in step with the index."""

    @abstractmethod
    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[SelectedTool]:
        """The `limit` best candidates, best first."""


@cache
def tool_selector(mode: str) -> ToolSelector | None:
    """The selector of this process for a mode; none where every candidate is offered."""
    match ToolMode(mode):
        case ToolMode.DIRECT:
            return None
        case ToolMode.LOCAL:
            return LocalToolSelector()
        case ToolMode.EXTERNAL:
            return ExternalToolSelector()


def tool_limit() -> int:
    """How many tools the model takes in one request."""
    model = language_model()
    return LanguageModel.most_tools if model is None else model.most_tools


def mode_in_use(config: Knobs, candidates: ToolList) -> str:
    """Return the mode that chooses tools: the configured one, but `local` for more tools than `direct` can offer."""
    if config.tool_mode == ToolMode.DIRECT and len(candidates) > tool_limit():
        return ToolMode.LOCAL.value
    return config.tool_mode


def select_tools(
    *, question_vector: Vectors, question: str, candidates: ToolList, recent: Sequence[str] = (), config: Knobs
) -> list[SelectedTool]:
    """The tools to offer: resident ones, by score, then `recent`; a phrasing of a tool finds it in every mode."""
    if not config.tools_enabled or not candidates:
        return []
    asked = _bare(question)
    phrased = {
        spec.name: SelectedTool(spec, EXACT, SelectionReason.SIMILAR)
        for spec in candidates
        if any(_bare(example) == asked for example in spec.examples)
    }
    selector = tool_selector(mode_in_use(config, candidates))
    if selector is None:
        return [
            phrased.get(spec.name)
            or SelectedTool(spec, None, SelectionReason.RESIDENT if spec.is_always_on else SelectionReason.ALL)
            for spec in candidates
        ]
    chosen = {
        spec.name: SelectedTool(spec, None, SelectionReason.RESIDENT) for spec in candidates.resident[:MAX_RESIDENT]
    }
    chosen |= phrased
    ranked = selector.rank(
        question_vector=question_vector, question=question, candidates=candidates, limit=config.tool_top_k + len(chosen)
    )
    threshold = effective_threshold(config)
    similar = 0
    for found in ranked:
        if similar == config.tool_top_k or (threshold is not None and (found.score or 0.0) < threshold):
            break
        if found.spec.name not in chosen:
            chosen[found.spec.name] = found
            similar += 1
    for name in recent:
        spec = candidates.named(name)
        if spec is not None and name not in chosen:
            chosen[name] = SelectedTool(spec, None, SelectionReason.RECENT)
    return list(chosen.values())[: tool_limit()]


@lru_cache(maxsize=16_384)
def _bare(text: str) -> str:
    return " ".join(words(fold(text)))


@dataclass(frozen=True, slots=True)
class _State:
    token: str
    recipe: Recipe
    ranking: Ranking


class LocalToolSelector(ToolSelector):
    """Ranks by a matrix that each process keeps, made anew when the token of the tools has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: _State | None = None

    def prepare(self, candidates: ToolList) -> None:
        self.ranking(candidates.token)

    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[SelectedTool]:
        """Whatever else the ranking knows is left out before anything is chosen."""
        ranking = self.ranking(candidates.token)
        specs = [spec for spec in candidates if spec.name in ranking.position]
        positions = np.array([ranking.position[spec.name] for spec in specs], dtype=np.intp)
        scores = ranking.scores(question_vector, question)[positions]
        return [SelectedTool(specs[i], scores.item(i), SelectionReason.SIMILAR) for i in best_positions(scores, limit)]

    def ranking(self, token: str) -> Ranking:
        """Return the ranking over all tools; the database is read again where `token` has changed."""
        recipe = embedder().recipe
        state = self._state
        if state is None or state.token != token or state.recipe != recipe:
            with self._lock:
                state, tools = self._state, all_tools()
                if state is None or state.token != tools.token or state.recipe != recipe:
                    state = self._state = _load(tools, recipe)
        return state.ranking


def _load(tools: ToolList, recipe: Recipe) -> _State:
    vectors, outdated = indexed_vectors(tools, recipe)
    if outdated:
        ask_for_index(f"{tools.token} {recipe.model}")
    matrix = np.zeros((len(tools), recipe.dimensions), dtype=np.float32)
    for position, spec in enumerate(tools):
        vector = vectors.get(spec.name)
        if vector is not None:
            matrix[position] = vector
    return _State(tools.token, recipe, Ranking(tools, matrix))


#: The words decide among this many times the tools wanted.
_FETCHED = 8
_LEAST_FETCHED = 40


class ExternalToolSelector(ToolSelector):
    """Asks the vector store, which knows names and vectors only; what comes back is kept if it is a candidate."""

    @property
    def uses_database(self) -> bool:
        return vector_store().uses_database

    def prepare(self, candidates: ToolList) -> None:
        """Ask a worker to bring the store's vectors up to date, in case they are missing or stale."""
        ask_for_index(f"external {candidates.token}")

    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[SelectedTool]:
        wanted = min(max(limit * _FETCHED, _LEAST_FETCHED), len(candidates))
        near = _nearest(question_vector, candidates, wanted)
        lexical = _lexicon(candidates).scores(question)
        ranked = [
            SelectedTool(candidates[position], score + lexical.item(position), SelectionReason.SIMILAR)
            for position, score in near
        ]
        return sorted(ranked, key=lambda found: (-(found.score or 0.0), found.spec.name))[:limit]


def _nearest(vector: Vectors, candidates: ToolList, wanted: int) -> list[tuple[int, float]]:
    positions, count = candidates.positions, wanted
    while True:
        try:
            asked = Query(vector, embedder().recipe)
            hits = vector_store().query(EXTERNAL_ALIAS, asked, Wanted(limit=count))
        except CollectionMissingError:
            return []
        found = [(positions[name], hit.score) for hit in hits if (name := str(hit.payload.get("name"))) in positions]
        if len(found) >= wanted or len(hits) < count:
            return found
        count *= 4


@lru_cache(maxsize=16)
def _lexicon(candidates: ToolList) -> WordIndex:
    return WordIndex(candidates)


#: Tools shown with their score, offered or not.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Simulation:
    mode: str
    threshold: float | None
    top_k: int
    scored: Sequence[SelectedTool]
    walled: Sequence[tuple[ToolSpec, Sequence[str]]]
    sent: str


def simulate_selection(question: str, *, tags: frozenset[str], agent_id: int | None, config: Knobs) -> Simulation:
    """Select for `question` as a turn does, and rank what was not selected too."""
    vector = embedder().embed_one(question, purpose=Purpose.QUERY)
    candidates = available_tools(user_tags=tags, agent_id=agent_id)
    mode = mode_in_use(config, candidates)
    selector = tool_selector(mode)
    if selector is not None:
        selector.prepare(candidates)
    chosen = select_tools(question_vector=vector, question=question, candidates=candidates, config=config)
    ranked: list[SelectedTool] = []
    if selector is not None:
        ranked = selector.rank(question_vector=vector, question=question, candidates=candidates, limit=SHOWN)
    return Simulation(
        mode=mode,
        threshold=effective_threshold(config) if selector is not None else None,
        top_k=config.tool_top_k,
        scored=_scored(chosen, ranked),
        walled=[(spec, sorted(spec.tags - tags)) for spec in all_tools() if not spec.tags <= tags],
        sent=json.dumps([found.spec.as_function() for found in chosen], ensure_ascii=False, indent=2),
    )


def _scored(chosen: Sequence[SelectedTool], ranked: Sequence[SelectedTool]) -> list[SelectedTool]:
    found = {tool.spec.name: replace(tool, reason=SelectionReason.NOT_OFFERED) for tool in ranked}
    for tool in chosen:
        known = found.get(tool.spec.name, tool)
        found[tool.spec.name] = replace(tool, score=known.score)
    return sorted(found.values(), key=lambda tool: (-(tool.score if tool.score is not None else 9.0), tool.spec.name))
