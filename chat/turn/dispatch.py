"""The steps that look a question up: its vector, and what the index of the agent that answers holds for it.

In a deployment with several agents each one's index is searched with the one vector of the question; what the chosen one
found is what the turn goes on with, so that dispatch costs a search for each other agent and nothing more.
"""

from dataclasses import replace

import numpy as np

from agents.database import in_database, in_thread
from agents.dispatch import choose_agent, description_lines, margins_of, nearness
from agents.effective import EffectiveConfig, Specialised
from chat.turn.context import tool_ground
from chat.turn.follow_ups import StandaloneQuestion
from chat.turn.values import Question, TurnInProgress
from faqs.recall import recall_learned, scope_of
from knowledge.categories import detect_category
from knowledge.embeddings.base import Purpose, Vectors, embedder
from knowledge.exceptions import CollectionMissingError
from knowledge.search import SearchResult, confirm_passages, search
from knowledge.vectors.base import Query, collection_alias, vector_store

#: By embedding model and text. Descriptions are few and short; a changed one is embedded anew.
_described: dict[tuple[str, tuple[str, ...]], Vectors] = {}
_MOST_DESCRIBED = 1_000


async def embed_question(turn: TurnInProgress, asked: StandaloneQuestion) -> None:
    """Embed the question once; every later step shares the vector."""
    model, request = embedder(), turn.request
    vector = model.known_vector(asked.text, purpose=Purpose.QUERY)
    if vector is None:
        vector = await in_thread(model.embed_one, asked.text, purpose=Purpose.QUERY)
    turn.trace.step("embedding", model.recipe.model)
    scope = scope_of(
        phase=request.phase,
        project=request.project,
        deployment_slug=turn.config.deployment_slug,
    )
    turn.question = Question(asked, vector, model.recipe, scope)


async def dispatch_and_search(turn: TurnInProgress) -> None:
    """Find passages in the index of the agent that answers, and give the turn that agent's settings."""
    found = await (_dispatch(turn) if turn.config.agents else _search(turn.config, turn.question))
    turn.learned = recall_learned(found, turn.request.question)
    turn.answer.best_score = turn.found.best_score
    category = detect_category(turn.found.passages(turn.config.match_count))
    turn.trace.step(
        "search",
        "found" if turn.found.hits else "nothing",
        score=turn.found.best_score,
        detail=category.name if category else "",
    )


async def _dispatch(turn: TurnInProgress) -> SearchResult:
    """Search every agent and pick one. Raises `CollectionMissingError` where none has an index."""
    config = turn.config
    results = [await _searched(agent, turn.question) for agent in config.agents]
    descriptions = [await _described_by(agent) for agent in config.agents]
    relevance = [0.0 if result is None else result.best_relevance for result in results]
    choice = choose_agent(
        relevance,
        nearness(turn.question.vector, descriptions),
        margins_of(turn.question.recipe.model, config.dispatch_margin),
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
    turn.trace.step(
        "dispatch", choice.by, score=choice.score, detail=f"{chosen.name} {choice.lead:.3f}"
    )
    found = results[position]
    if found is None:
        found = await _search(chosen.config, turn.question)
    await _hand_over(turn, chosen)
    return found


async def _hand_over(turn: TurnInProgress, chosen: Specialised) -> None:
    turn.answer.answered_by = chosen.name
    if chosen.config.agent_id != turn.config.agent_id:
        tools = await in_database(tool_ground, turn.request, chosen.config)
        turn.context = replace(turn.context, config=chosen.config, tools=tools)


async def _searched(agent: Specialised, question: Question) -> SearchResult | None:
    try:
        return await _search(agent.config, question)
    except CollectionMissingError:
        return None


async def _search(config: EffectiveConfig, question: Question) -> SearchResult:
    def nearest() -> SearchResult:
        return search(
            collection_alias(config.agent_slug, config.indexing_method),
            Query(question.vector, question.recipe, question.text),
            limit=config.match_count,
            min_score=config.match_threshold,
        )

    def confirmed() -> SearchResult:
        return confirm_passages(nearest(), agent_id=config.agent_id)

    if vector_store().uses_database:
        return await in_database(confirmed)
    found = await in_thread(nearest)
    return await in_database(confirm_passages, found, agent_id=config.agent_id)


async def _described_by(agent: Specialised) -> Vectors:
    lines = description_lines(agent.name, agent.description)
    key = (embedder().recipe.model, lines)
    rows = _described.get(key)
    if rows is None:
        if len(_described) >= _MOST_DESCRIBED:
            _described.clear()
        rows = np.stack(await in_thread(_embedded, lines))
        _described[key] = rows
    return rows


def _embedded(lines: tuple[str, ...]) -> list[Vectors]:
    return list(embedder().embed(lines, purpose=Purpose.QUERY))
