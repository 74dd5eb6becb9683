"""The turn's two meetings with the memory: asked before anything is searched, taught after the answer is saved.

The decisions are `faqs.recall`'s and `faqs.learning`'s; here they meet the trace and the turn's settings. Where there is
nothing to look at, nothing is awaited.
"""

from agents.database import in_database, in_thread
from chat.models import AnswerSource
from chat.turn.follow_ups import follow_up_rule
from chat.turn.values import Learning, TurnInProgress
from faqs.learning import Lesson, reason_not_to_learn
from faqs.recall import (
    RecalledAnswer,
    is_indexed,
    is_known_empty,
    lookup_of,
    neighbours_of_large,
    recall_cached,
)

#: The agent that an answer from the memory comes from (seed 000, section 1).
MEMORY_MODEL = "memory_guard"


async def answer_from_memory(turn: TurnInProgress) -> bool:
    """Give the validated answer that the memory guard lets out, where it lets one out."""
    recalled = await _recall(turn)
    if recalled is None:
        return False
    answer = turn.answer
    answer.source, answer.model = AnswerSource.MEMORY_GUARD, MEMORY_MODEL
    answer.score = recalled.score
    await turn.show_stored(recalled.sources)
    await turn.say(recalled.text)
    return True


async def _recall(turn: TurnInProgress) -> RecalledAnswer | None:
    question, recipe, mark = turn.question, turn.question.recipe, turn.context.mark
    lookup = lookup_of(
        turn.config,
        question.text,
        model=recipe.model,
        writes=not turn.request.is_dry_run,
        scope=question.scope,
    )
    if (
        question.asked.is_follow_up
        or lookup is None
        or mark is None
        or is_known_empty(mark, recipe)
    ):
        outcome = "off" if lookup is None else "empty"
        turn.trace.step(
            "memory_guard",
            "follow_up" if question.asked.is_follow_up else outcome,
            threshold=lookup.threshold if lookup else None,
        )
        return None
    indexed = None
    if is_indexed(mark, recipe):
        least = lookup.threshold
        indexed = await in_thread(
            neighbours_of_large, mark, question.vector, recipe=recipe, least=least
        )
    found = await in_database(
        recall_cached, mark, lookup, vector=question.vector, recipe=recipe, indexed=indexed
    )
    # The route of seed 000, section 2: the step is the `next_agent`, its outcome the `action`.
    outcome = "refused" if found.refused else "no_candidate"
    if found.answer is not None:
        outcome = "shadow" if found.answer.is_shadow else "respond_from_memory"
    turn.trace.step(
        "memory_guard",
        outcome,
        score=found.best_score,
        threshold=lookup.threshold if found.answer is None else found.answer.threshold,
        detail="" if found.answer is None else found.answer.question,
        refused=[each.as_stored() for each in found.refused],
    )
    if found.answer is not None:
        turn.trace.gave(found.answer.entry_id)
    return None if found.answer is None or found.answer.is_shadow else found.answer


def teach(turn: TurnInProgress) -> None:
    """Make the answer a lesson for the memory, or say in the trace why it is none."""
    request, question, answer = turn.request, turn.question, turn.answer
    lesson = Lesson(
        deployment_id=turn.config.deployment_id,
        question=question.text,
        answer=answer.text,
        vector=question.vector,
        recipe=question.recipe,
        sources=answer.sources,
        language=request.language,
        author=answer.model,
        score=answer.best_score,
        is_follow_up=question.asked.is_follow_up or bool(follow_up_rule(request.question)),
        had_context=bool(turn.history) or answer.had_history,
        source_turn=request.turn_id,
        scope=question.scope,
        used_tools=bool(answer.rounds) or answer.is_personal or answer.had_tool_results,
    )
    reason = reason_not_to_learn(lesson, turn.config.memory_learning)
    turn.trace.step("learn", "not_kept" if reason else "kept", detail=reason)
    if not reason:
        days = turn.config.memory_max_age_days
        turn.result.learning = Learning(lesson, turn.config.memory_learning, days)
