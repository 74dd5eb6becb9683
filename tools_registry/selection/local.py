"""Mode `local`: the nearest tools by the index in the database, over a matrix that each process keeps.

The matrix is made anew when the catalogue or the index has changed, which the tokens tell; a turn in between costs one
product. A tool whose vectors are missing or out of date keeps its old ones, or its words alone, until the index is
brought up to date, which is asked for here.
"""

import threading
from dataclasses import dataclass

import numpy as np

from knowledge.embeddings.base import Recipe, Vectors, embedder
from tools_registry.catalog import Placed, ToolList, all_tools
from tools_registry.index import indexed_vectors
from tools_registry.ranking import Ranking, best_positions
from tools_registry.selection.base import RankedTool, ToolSelector
from tools_registry.tasks import ask_for_index

#: Up to so many tools, ranking takes less time (0.2 ms) than handing it to a thread and back.
_IMMEDIATE = 2_000


@dataclass(frozen=True, slots=True)
class _State:
    tokens: tuple[str, str]
    recipe: Recipe
    ranking: Ranking


class LocalToolSelector(ToolSelector):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: _State | None = None

    def prepare(self, candidates: ToolList) -> None:
        self.ranking(candidates.tokens)

    def is_immediate(self, candidates: ToolList) -> bool:
        state = self._state
        return (
            state is not None
            and state.tokens == candidates.tokens
            and state.recipe == embedder().recipe
            and len(state.ranking.names) <= _IMMEDIATE
        )

    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[RankedTool]:
        return rank_candidates(
            self.ranking(candidates.tokens), candidates, question_vector=question_vector, question=question, limit=limit
        )

    def ranking(self, tokens: tuple[str, str]) -> Ranking:
        """Every tool as the database has it, which is asked where `tokens` are not those of the matrix kept."""
        recipe = embedder().recipe
        state = self._state
        if state is None or state.tokens != tokens or state.recipe != recipe:
            with self._lock:
                state, tools = self._state, all_tools()
                if state is None or state.tokens != tools.tokens or state.recipe != recipe:
                    state = self._state = _load(tools, recipe)
        return state.ranking


def rank_candidates(
    ranking: Ranking, candidates: ToolList, *, question_vector: Vectors, question: str, limit: int
) -> list[RankedTool]:
    """Return the best of the candidates; whatever else the ranking knows is left out before anything is chosen."""
    placed = candidates.placed
    if placed is None or placed.ranking is not ranking:
        specs = [spec for spec in candidates if spec.name in ranking.position]
        positions = np.array([ranking.position[spec.name] for spec in specs], dtype=np.intp)
        placed = candidates.placed = Placed(ranking, positions, specs)
    scores = ranking.scores(question_vector, question)[placed.positions]
    return [RankedTool(placed.specs[i], scores.item(i)) for i in best_positions(scores, limit)]


def _load(tools: ToolList, recipe: Recipe) -> _State:
    vectors, outdated = indexed_vectors(tools, recipe)
    if outdated:
        ask_for_index(f"{tools.tokens} {recipe.model}")
    matrix = np.zeros((len(tools), recipe.dimensions), dtype=np.float32)
    for position, spec in enumerate(tools):
        vector = vectors.get(spec.name)
        if vector is not None:
            matrix[position] = vector
    return _State(tools.tokens, recipe, Ranking(tools, matrix))
