"""The steps that answer from stored answers: the memory before search, validated answers from the hits; and what is
learned.

The decisions are made in `faqs.recall` and `faqs.learning`.
"""

from collections.abc import Sequence
from dataclasses import replace

from agents.database import in_database, in_thread
from chat.models import AnswerSource
from chat.telemetry import log_direct_answer
from chat.turn.dispatch import dispatch_and_search
from chat.turn.prompt import direct_text, number_sources
from chat.turn.standalone import follow_up_rule
from chat.turn.values import DIRECT_MODEL, Learning, TurnInProgress
from faqs.learning import Lesson, reason_not_to_learn
from faqs.recall import (
    Lookup,
    MemoryMark,
    Recall,
    RecalledAnswer,
    is_known_empty,
    lookup_of,
    normalised_question,
    recall_cached,
    stored_refusal,
)
from faqs.second_key.same_question import Decision, ask_the_same, would_serve
from faqs.second_key.verifier import ModelVerifier, configured_verifier
from knowledge.embeddings.base import Recipe, Vectors
from knowledge.errors import CollectionMissingError
from knowledge.language.words import same_writing
from knowledge.search import Passage

#: The agent that an answer from the memory comes from (seed 000, section 1).
MEMORY_MODEL = "memory_guard"


async def answer_from_memory(turn: TurnInProgress) -> bool:
    """Answer with the memory's entry where the memory guard allows one."""
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
        outcome = "respond_from_memory"
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
    return found.answer


async def _is_stored(turn: TurnInProgress) -> bool:
    """Whether the question as typed matches a stored question; searches now, the hits stay on the turn."""
    try:
        await dispatch_and_search(turn)
    except CollectionMissingError:
        return False
    return asks_what_is_stored(turn)


async def _look_up(mark: MemoryMark, lookup: Lookup, vector: Vectors, recipe: Recipe) -> Recall:
    return await in_database(recall_cached, mark, lookup, vector=vector, recipe=recipe)


def teach(turn: TurnInProgress) -> None:
    """Plan a lesson for the memory from the answer, or record in the trace why there is none."""
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
        used_tools=answer.used_tools or answer.is_personal or answer.had_tool_results,
    )
    reason = reason_not_to_learn(lesson, turn.config.memory_learning)
    if answer.defect or answer.cut:
        reason = _BY_DEFECT.get(answer.defect, "cut" if answer.cut and not answer.defect else "failed_check")
    # What it comes to is known once it is out (`chat.runs.afterwards`).
    turn.trace.step("learn", "not_kept" if reason else "planned", detail=reason)
    if not reason:
        days = turn.config.memory_max_age_days
        turn.result.learning = Learning(lesson, turn.config.memory_learning, days)


_BY_DEFECT = {"unsupported": "unsupported", "other_subject": "other_subject"}


def _validated(turn: TurnInProgress) -> list[tuple[int | None, str]]:
    """The validated answers that were found for the question, each with the number under which the model was given it."""
    given = {source["learned_id"]: source["n"] for source in turn.answer.sources if source.get("learned_id")}
    hits = (hit for hit in turn.found.hits if hit.is_faq)
    return [(given.get(hit.learned_id), hit.question) for hit in hits]


#: With a model behind the second key, only the nearest candidates are worth its call.
VERIFIED_CANDIDATES = 3

Decisions = list[tuple[Passage, Decision]]


async def answer_as_stored(turn: TurnInProgress) -> bool:
    """Give a courtesy, or the best stored answer that both keys let out; `False` where nothing stored may be given."""
    learned = turn.learned
    outcome = "courtesy" if learned.courtesy else "found" if learned.learned else "nothing"
    turn.trace.step("learned", outcome, detail=f"{learned.learned}")
    if learned.courtesy and turn.config.direct_answers:
        _take(turn, learned.courtesy)
        await turn.say(learned.courtesy.content)
        return True
    direct = await _choose_direct(turn)
    if direct is None:
        return False
    _take(turn, direct)
    log_direct_answer(turn.request.turn_id, turn.config.agent_slug, direct.question, direct.score)
    await turn.show(number_sources([direct]))
    await turn.say(direct_text(direct))
    return True


def _take(turn: TurnInProgress, passage: Passage) -> None:
    answer = turn.answer
    answer.source, answer.model, answer.score = AnswerSource.DIRECT_QA, DIRECT_MODEL, passage.score
    answer.learned_id = passage.learned_id


async def _choose_direct(turn: TurnInProgress) -> Passage | None:
    """The best stored answer that both keys let out: the similarity, then the agreement of the two questions."""
    threshold, is_follow_up = turn.thresholds.direct_answer, turn.asked.is_follow_up
    if is_follow_up or threshold is None:
        outcome = "follow_up" if is_follow_up else "off"
        turn.trace.step("direct_answer", outcome, threshold=threshold)
        return None
    candidates = turn.found.direct_candidates(threshold)
    decisions = _decisions(turn, candidates, threshold)
    await _verify(turn, decisions, threshold)
    allowed = [each for each in decisions if each[1].served]
    served = max(allowed, key=lambda each: _rank(turn, each[0]), default=None)
    if served is None:
        turn.trace.step(
            "direct_answer",
            "second_key_refused" if candidates else "no_candidate",
            score=candidates[0].score if candidates else None,
            threshold=threshold,
            refused=[
                stored_refusal(each.question, each.score, "second_key", why.disagreements) for each, why in decisions
            ],
        )
        return None
    passage, decision = served
    outcome, detail = "verified" if decision.verified else "served", passage.question
    if rivals := [each for each in candidates if _contradicts(each, passage)]:
        outcome, detail = "contradicted", "\n".join(_place(each) for each in (passage, *rivals))
    turn.trace.step("direct_answer", outcome, score=passage.score, threshold=threshold, detail=detail)
    return passage if outcome in ("verified", "served") else None


def _decisions(turn: TurnInProgress, candidates: Sequence[Passage], threshold: float) -> Decisions:
    """Decide on the candidates in order; stop at a served one that no later candidate can outrank (`_rank`)."""
    decided: Decisions = []
    best: tuple[bool, bool, float] | None = None
    for position, passage in enumerate(candidates, start=1):
        decision = _decide(turn, passage, threshold, None)
        decided.append((passage, decision))
        if decision.served:
            rank = _rank(turn, passage)
            best = rank if best is None else max(best, rank)
        behind = ((True, each.is_faq, each.validated_at) for each in candidates[position:])
        if best is not None and best >= max(behind, default=best):
            break
    return decided


def _rank(turn: TurnInProgress, passage: Passage) -> tuple[bool, bool, float]:
    """Matches as typed come before matches by a synonym, then validated answers before documents, then the newest."""
    as_typed = not turn.context.forms.unite(passage.question, turn.asked.text) or ask_the_same(
        passage.question, turn.asked.text
    )
    return as_typed, passage.is_faq, passage.validated_at


def asks_what_is_stored(turn: TurnInProgress) -> bool:
    """Whether a candidate for a direct answer asks the same as the question without a synonym."""
    if turn.thresholds.direct_answer is None:
        return False
    candidates = turn.found.direct_candidates(turn.thresholds.direct_answer)
    return any(ask_the_same(each.question, turn.asked.text) for each in candidates)


async def _verify(turn: TurnInProgress, decisions: Decisions, threshold: float) -> None:
    """Where the rules refuse every candidate, ask the model about the best few, if staff enable it."""
    may_ask = turn.config.verify_answers and not turn.request.without_model
    if not may_ask or any(decision.served for _passage, decision in decisions):
        return
    verifier = configured_verifier(llm_model=turn.config.llm_model)
    if verifier is None:
        return
    for position, (passage, _refused) in enumerate(decisions[:VERIFIED_CANDIDATES]):
        verdict = await in_thread(_decide, turn, passage, threshold, verifier)
        decisions[position] = (passage, verdict)
        turn.answer.llm_calls += verdict.consulted
        if verdict.served:
            return


def _decide(turn: TurnInProgress, passage: Passage, threshold: float, verifier: ModelVerifier | None) -> Decision:
    """Pure and short without a verifier; with one it may wait for the model."""
    forms = turn.context.forms
    return would_serve(
        stored=forms.one_writing(passage.question),
        asked=forms.one_writing(turn.asked.text),
        score=passage.score,
        threshold=threshold,
        verifier=verifier,
    )


def _contradicts(other: Passage, chosen: Passage) -> bool:
    """Whether another document answers the same question otherwise; never where a validated answer is chosen."""
    return (
        not chosen.is_faq
        and normalised_question(other.question) == normalised_question(chosen.question)
        and not same_writing(other.content, chosen.content)
    )


def _place(passage: Passage) -> str:
    where = passage.place(between=" › ")
    return f"{passage.question} ({where})" if where else passage.question
