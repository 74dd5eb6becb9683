"""The steps that look a question up: embed it, choose the agent of the deployment that answers, search its index.

The relevance of each index's best passage chooses first, then the nearest line of the agents' descriptions, each by a
margin of the embedding model (`benchmarks/dispatch`); else the default agent answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agents.database import in_database, in_thread
from agents.effective import EffectiveConfig
from chat.turn.tool_loop import load_tool_ground
from chat.turn.values import Question, StandaloneQuestion, TurnInProgress
from faqs.precedence import recall_learned
from faqs.recall import scope_of
from knowledge.embeddings.base import Purpose, Vectors, embedder
from knowledge.errors import CollectionMissingError
from knowledge.search import SearchResult, compare_late, confirm_passages, detect_category, search_index
from knowledge.vectors.base import Query, vector_store

#: Longer descriptions are read so far.
MAX_LINES = 40


@dataclass(frozen=True, slots=True)
class Margins:
    """The lead that an agent needs over the next one: in relevance of indexes, and in cosine of descriptions."""

    index: float
    description: float


#: By embedding model, from `benchmarks/dispatch`: chosen on one half of its questions, reported on the other.
DISPATCH_MARGINS = {"universal-sentence-encoder-multilingual-3": Margins(index=0.05, description=0.15)}
#: A model that was not measured: wide, so that the default agent answers what is not plain.
UNMEASURED_MARGINS = Margins(index=0.1, description=0.2)

Sign = Literal["index", "description", "default"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The position of the chosen agent, the signal that chose it, and the deciding score and lead."""

    position: int
    by: Sign
    score: float
    lead: float


def margins_of(model: str) -> Margins:
    return DISPATCH_MARGINS.get(model, UNMEASURED_MARGINS)


def description_lines(name: str, description: str) -> tuple[str, ...]:
    """The texts that are embedded for an agent: the lines of its description, or its name where there is none."""
    lines = [line.strip(" -*•\t") for line in description.splitlines()]
    return tuple(line for line in lines if line)[:MAX_LINES] or (name,)


def nearness(vector: NDArray[np.float32], descriptions: Sequence[NDArray[np.float32]]) -> list[float]:
    """The cosine of the nearest line of each agent. `descriptions`: the unit vectors of each agent's lines."""
    return [float((rows @ vector).max()) for rows in descriptions]


def choose_agent(relevance: Sequence[float], near: Sequence[float], margins: Margins) -> Choice:
    """Choose by index, then by description, else the default agent (position 0). Margins are inclusive, ties first."""
    best, score, lead = _leader(relevance)
    if lead >= margins.index and score > 0.0:
        return Choice(best, "index", score, lead)
    nearest, cosine, ahead = _leader(near)
    if ahead >= margins.description:
        return Choice(nearest, "description", cosine, ahead)
    return Choice(0, "default", score, lead)


def _leader(scores: Sequence[float]) -> tuple[int, float, float]:
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    best, second = order[0], order[1]
    return best, scores[best], scores[best] - scores[second]


async def embed_question(turn: TurnInProgress, asked: StandaloneQuestion) -> None:
    """Embed the question once, and its other readings; every later step shares the vectors."""
    model, request = embedder(), turn.request
    vector = await _vector_of(asked.text)
    if asked.is_follow_up and asked.text != asked.question:
        # Joined to the question before it, what it asks itself counts twice (`benchmarks/followups`).
        both = vector + await _vector_of(asked.question)
        vector = both / np.linalg.norm(both)
    # What a question leans on is no part of its other readings.
    further = () if asked.is_follow_up or asked.rule else turn.read.others
    by_forms = "" if request.as_typed else turn.context.forms.other_reading(asked.text)
    turn.trace.step("embedding", model.recipe.model, detail=by_forms)
    if by_forms:
        turn.trace.shows(by_forms)
    scope = scope_of(phase=request.phase, project=request.project, deployment_slug=turn.config.deployment.slug)
    turn.question = Question(
        asked,
        vector,
        model.recipe,
        scope,
        others=await _with_vectors(further),
        by_forms=await _with_vectors([by_forms]),
    )


async def _with_vectors(texts: Iterable[str]) -> tuple[tuple[str, Vectors], ...]:
    return tuple([(text, await _vector_of(text)) for text in texts if text])


async def _vector_of(text: str) -> Vectors:
    vector = embedder().known_vector(text, purpose=Purpose.QUERY)
    if vector is None:
        vector = await in_thread(embedder().embed_one, text, purpose=Purpose.QUERY)
    return vector


async def dispatch_and_search(turn: TurnInProgress) -> None:
    """Find passages in the index of the agent that answers, once, and give the turn that agent's settings."""
    if turn.is_searched:
        return
    found = await (_dispatch(turn) if turn.config.agents else _search(turn.config, turn.question))
    turn.learned = recall_learned(found, turn.asked.question)
    turn.is_searched = True
    turn.answer.best_score = turn.found.best_score
    category = detect_category(turn.found.passages(turn.config.match_count))
    outcome = "found" if turn.found.hits else "nothing"
    turn.trace.step("search", outcome, score=turn.found.best_score, detail=category)


async def _dispatch(turn: TurnInProgress) -> SearchResult:
    """Search every agent and pick one. Raises `CollectionMissingError` where none has an index."""
    config = turn.config
    results = [await _searched(agent, turn.question) for agent in config.agents]
    model = turn.question.recipe.model
    descriptions = await in_thread(_description_vectors, model, config.agents)
    relevance = [0.0 if result is None else result.best_relevance for result in results]
    choice = choose_agent(relevance, nearness(turn.question.vector, descriptions), margins_of(model))
    position = choice.position
    if results[position] is None:
        # An agent without an index has nothing to answer from, be it the default one.
        position = max(
            (at for at, result in enumerate(results) if result is not None),
            key=lambda at: relevance[at],
            default=position,
        )
    chosen = config.agents[position]
    turn.trace.step("dispatch", choice.by, score=choice.score, detail=f"{chosen.agent.name} {choice.lead:.3f}")
    found = results[position]
    if found is None:
        found = await _search(chosen, turn.question)
    await _hand_over(turn, chosen)
    others = (result for at, result in enumerate(results) if at != position and result is not None)
    return _with_answers_of(others, found, turn)


def _with_answers_of(others: Iterable[SearchResult], found: SearchResult, turn: TurnInProgress) -> SearchResult:
    """Add the other agents' validated answers that may be given directly to the chosen agent's hits."""
    candidates = [
        hit
        for result in others
        for hit in result.direct_candidates(turn.thresholds.direct_answer)
        if hit.is_faq and not hit.is_courtesy
    ]
    return replace(found, hits=(*found.hits, *candidates)) if candidates else found


async def _hand_over(turn: TurnInProgress, chosen: EffectiveConfig) -> None:
    turn.answer.answered_by = chosen.agent.name
    if chosen.agent != turn.config.agent:
        turn.context = replace(turn.context, config=chosen)
        if turn.context.tools is not None:
            tools = await in_database(load_tool_ground, turn.request, chosen)
            turn.context = replace(turn.context, tools=tools)


async def _searched(agent: EffectiveConfig, question: Question) -> SearchResult | None:
    try:
        return await _search(agent, question)
    except CollectionMissingError:
        return None


async def _search(config: EffectiveConfig, question: Question) -> SearchResult:
    query = Query(question.vector, question.recipe, question.text)
    others = [Query(vector, question.recipe, text) for text, vector in (*question.others, *question.by_forms)]

    def nearest() -> SearchResult:
        return search_index(config, query, limit=config.match_count, others=others)

    def confirmed(found: SearchResult) -> SearchResult:
        return confirm_passages(found, agent_id=config.agent.pk, question=question.text)

    if vector_store().uses_database:
        result = await in_database(lambda: confirmed(nearest()))
    else:
        result = await in_database(confirmed, await in_thread(nearest))
    return await in_thread(compare_late, result, query) if result.late else result


def _description_vectors(model: str, agents: Iterable[EffectiveConfig]) -> list[Vectors]:
    return [_line_vectors(model, description_lines(each.agent.name, each.agent.description)) for each in agents]


@lru_cache(maxsize=1_000)
def _line_vectors(_model: str, lines: tuple[str, ...]) -> Vectors:
    """Descriptions are few and short; a changed one is embedded anew."""
    return np.stack(list(embedder().embed(lines, purpose=Purpose.QUERY)))
