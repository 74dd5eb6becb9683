"""The turn's two meetings with the memory: asked before anything is searched, taught after the answer is saved.

The decisions are `faqs.recall`'s and `faqs.learning`'s; here they meet the trace and the turn's settings. Where there
is nothing to look at, nothing is awaited.
"""

from dataclasses import replace

from agents.database import in_database
from chat.models import AnswerSource
from chat.turn.dispatch import dispatch_and_search
from chat.turn.leaning.follow_ups import follow_up_rule
from chat.turn.stored_answers import asks_what_is_stored
from chat.turn.values import Learning, TurnInProgress
from faqs.learning import Lesson, reason_not_to_learn
from faqs.recall import Lookup, MemoryMark, Recall, RecalledAnswer, is_known_empty, lookup_of, recall_cached
from knowledge.embeddings.base import Recipe, Vectors
from knowledge.errors import CollectionMissingError

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
        turn.config, question.text, model=recipe.model, writes=not turn.request.is_dry_run, scope=question.scope
    )
    if lookup is not None:
        lookup = replace(lookup, forms=turn.context.forms)
    if question.asked.is_follow_up or lookup is None or mark is None or is_known_empty(mark, recipe):
        outcome = "off" if lookup is None else "empty"
        turn.trace.step(
            "memory_guard",
            "follow_up" if question.asked.is_follow_up else outcome,
            threshold=lookup.threshold if lookup else None,
        )
        return None
    found = await _look_up(mark, lookup, question.vector, recipe)
    for _text, vector in question.by_forms:
        if found.answer is None:
            again = await _look_up(mark, lookup, vector, recipe)
            found = again if again.answer or (again.best_score or 0.0) > (found.best_score or 0.0) else found
    yields = found.answer is not None and found.answer.is_by_form and await _is_stored(turn)
    # The route of seed 000, section 2: the step is the `next_agent`, its outcome the `action`.
    outcome = "refused" if found.refused else "no_candidate"
    if found.answer is not None:
        outcome = "shadow" if found.answer.is_shadow else "respond_from_memory"
    if yields:
        outcome = "yielded"
    turn.trace.step(
        "memory_guard",
        outcome,
        score=found.best_score,
        threshold=lookup.threshold if found.answer is None else found.answer.threshold,
        detail="" if found.answer is None else found.answer.question,
        refused=[each.as_stored() for each in found.refused],
    )
    if found.answer is None or yields:
        return None
    turn.trace.gave(found.answer.entry_id)
    return None if found.answer.is_shadow else found.answer


async def _is_stored(turn: TurnInProgress) -> bool:
    """Whether the words themselves are a stored question, which then goes before what a synonym makes of them.

    Searches now; what is found is kept for the steps that follow.
    """
    try:
        await dispatch_and_search(turn)
    except CollectionMissingError:
        return False
    return asks_what_is_stored(turn)


async def _look_up(mark: MemoryMark, lookup: Lookup, vector: Vectors, recipe: Recipe) -> Recall:
    return await in_database(recall_cached, mark, lookup, vector=vector, recipe=recipe)


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
        agent_ids=[each.agent_id for each in turn.config.of_each_agent],
        asked_at=turn.started_at,
        validated=_validated(turn),
        forms=turn.context.forms,
        used_tools=bool(answer.rounds) or answer.is_personal or answer.had_tool_results,
    )
    reason = "cut" if answer.cut else reason_not_to_learn(lesson, turn.config.memory_learning)
    # What it comes to is known once it is out (`chat.runs.afterwards`).
    turn.trace.step("learn", "not_kept" if reason else "planned", detail=reason)
    if not reason:
        days = turn.config.memory_max_age_days
        turn.result.learning = Learning(lesson, turn.config.memory_learning, days)


def _validated(turn: TurnInProgress) -> list[tuple[int | None, str]]:
    """The validated answers that were found for the question, each with the number under which the model was given it."""
    given = {source["learned_id"]: source["n"] for source in turn.answer.sources if source.get("learned_id")}
    hits = (hit for hit in turn.found.hits if hit.is_faq)
    return [(given.get(hit.learned_id), hit.question) for hit in hits]
