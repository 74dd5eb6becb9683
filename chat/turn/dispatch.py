"""The step of a turn that picks the specialist, in a deployment that has several agents.

Each agent's index is searched with the one vector of the question, as the turn would search it; what the chosen one
found is what the turn goes on with, so that dispatch costs a search for each other agent and nothing more. Vectors of
descriptions are kept by their text.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from agents.bridges import in_thread
from agents.dispatch import choose_agent, description_lines, margins_of, nearness
from agents.effective import EffectiveConfig, Specialised
from chat.turn.trace import Trace
from knowledge.embeddings.base import Embedder, Purpose, Vectors
from knowledge.exceptions import CollectionMissingError
from knowledge.search import SearchResult

Search = Callable[[EffectiveConfig], Awaitable[SearchResult]]

#: By embedding model and text. Descriptions are few and short; a changed one is embedded anew.
_described: dict[tuple[str, tuple[str, ...]], Vectors] = {}
_MOST_DESCRIBED = 1_000


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The agent that answers: its name, its settings and what its index holds for the question."""

    agent: str
    config: EffectiveConfig
    found: SearchResult


async def dispatch(
    config: EffectiveConfig, model: Embedder, vector: Vectors, search: Search, trace: Trace
) -> Dispatched:
    """Search every agent of the deployment and pick one. Raises `CollectionMissingError` where none has an index."""
    results = [await _searched(agent, search) for agent in config.agents]
    descriptions = [await _described_by(agent, model) for agent in config.agents]
    relevance = [0.0 if result is None else result.best_relevance for result in results]
    choice = choose_agent(
        relevance,
        nearness(vector, descriptions),
        margins_of(model.recipe.model, config.dispatch_margin),
    )
    position = choice.position
    if results[position] is None:
        # An agent without an index has nothing to answer from, be it the default one.
        position = max(
            (at for at, result in enumerate(results) if result is not None),
            key=lambda at: relevance[at],
            default=position,
        )
    chosen = config.agents[position]
    trace.step(
        "dispatch",
        choice.by,
        score=choice.score,
        threshold=None,
        detail=f"{chosen.name} {choice.lead:.3f}",
    )
    found = results[position]
    if found is None:
        found = await search(chosen.config)
    return Dispatched(chosen.name, chosen.config, found)


async def _searched(agent: Specialised, search: Search) -> SearchResult | None:
    try:
        return await search(agent.config)
    except CollectionMissingError:
        return None


async def _described_by(agent: Specialised, model: Embedder) -> Vectors:
    lines = description_lines(agent.name, agent.description)
    key = (model.recipe.model, lines)
    rows = _described.get(key)
    if rows is None:
        if len(_described) >= _MOST_DESCRIBED:
            _described.clear()
        rows = np.stack(await in_thread(_embedded, model, lines))
        _described[key] = rows
    return rows


def _embedded(model: Embedder, lines: tuple[str, ...]) -> list[Vectors]:
    return list(model.embed(lines, purpose=Purpose.QUERY))
