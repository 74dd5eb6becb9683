"""The turn's two meetings with the memory: asked before anything is searched, taught after the answer is saved.

The decisions are `faqs.recall`'s and `faqs.learning`'s; here they meet the trace and the turn's settings. Where there is
nothing to look at, nothing is awaited.
"""

import uuid
from dataclasses import dataclass

from agents.bridges import in_database, in_thread
from agents.effective import EffectiveConfig
from chat.thread.messages import Answer
from chat.turn.follow_ups import StandaloneQuestion, follow_up_rule
from chat.turn.trace import Trace
from faqs.learning import Lesson, reason_not_to_learn
from faqs.recall import (
    MemoryMark,
    RecalledAnswer,
    Scope,
    is_indexed,
    is_known_empty,
    lookup_of,
    neighbours_of_large,
    recall_cached,
)
from knowledge.embeddings.base import Recipe, Vectors


@dataclass(frozen=True, slots=True)
class Learning:
    """What the memory is given once the turn is saved, and under which settings."""

    lesson: Lesson
    mode: str
    max_age_days: int


async def recall_answer(
    config: EffectiveConfig,
    mark: MemoryMark | None,
    asked: StandaloneQuestion,
    vector: Vectors,
    recipe: Recipe,
    trace: Trace,
    *,
    writes: bool,
    scope: Scope | None = None,
) -> RecalledAnswer | None:
    """The memory guard: a validated answer to this question, or none."""
    lookup = lookup_of(config, asked.text, model=recipe.model, writes=writes, scope=scope)
    if asked.is_follow_up or lookup is None or mark is None or is_known_empty(mark, recipe):
        trace.step(
            "memory_guard",
            "follow_up" if asked.is_follow_up else "off" if lookup is None else "empty",
            threshold=lookup.threshold if lookup else None,
        )
        return None
    indexed = None
    if is_indexed(mark, recipe):
        least = lookup.threshold
        indexed = await in_thread(neighbours_of_large, mark, vector, recipe=recipe, least=least)
    found = await in_database(
        recall_cached, mark, lookup, vector=vector, recipe=recipe, indexed=indexed
    )
    # The route of seed 000, section 2: the step is the `next_agent`, its outcome the `action`.
    outcome = "refused" if found.refused else "no_candidate"
    if found.answer is not None:
        outcome = "shadow" if found.answer.is_shadow else "respond_from_memory"
    served = [found.answer.question] if found.answer is not None else []
    trace.step(
        "memory_guard",
        outcome,
        score=found.best_score,
        threshold=found.answer.threshold if found.answer is not None else lookup.threshold,
        detail="\n".join(served),
        refused=[each.as_stored() for each in found.refused],
        entry=found.answer.entry_id if found.answer is not None else None,
    )
    return None if found.answer is None or found.answer.is_shadow else found.answer


def lesson_of(
    config: EffectiveConfig,
    asked: StandaloneQuestion,
    vector: Vectors,
    recipe: Recipe,
    answer: Answer,
    trace: Trace,
    *,
    question: str,
    language: str,
    had_context: bool,
    turn_id: uuid.UUID | None,
    scope: Scope | None = None,
) -> Learning | None:
    """The answer as a lesson for the memory, or the reason why it is none in the trace."""
    lesson = Lesson(
        deployment_id=config.deployment_id,
        question=asked.text,
        answer=answer.text,
        vector=vector,
        recipe=recipe,
        sources=answer.sources,
        language=language,
        author=answer.model,
        score=answer.best_score,
        is_follow_up=asked.is_follow_up or bool(follow_up_rule(question)),
        had_context=had_context or answer.had_history,
        source_turn=turn_id,
        scope=scope,
        used_tools=bool(answer.rounds) or answer.is_personal or answer.had_tool_results,
    )
    reason = reason_not_to_learn(lesson, config.memory_learning)
    trace.step("learn", "not_kept" if reason else "kept", detail=reason)
    if reason:
        return None
    return Learning(lesson, config.memory_learning, config.memory_max_age_days)
