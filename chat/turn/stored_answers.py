"""The exits that give an answer somebody wrote: a courtesy, and a direct answer.

`chat.turn.path` says when an exit is taken. Each shows its sources first, then its text as one delta.
"""

from agents.database import in_thread
from chat.models import AnswerSource
from chat.turn.clarification import choice_made
from chat.turn.prompt import direct_text, number_sources
from chat.turn.values import TurnInProgress
from faqs.recall import normalised_question, stored_refusal
from faqs.second_key.decision import Decision, would_serve
from faqs.second_key.verifier import ModelVerifier, configured_verifier
from knowledge.language.folding import same_writing
from knowledge.search import Passage

#: The model name of a direct answer (seed 001, section 5.1.2).
DIRECT_MODEL = "direct_qr_match"
#: With a model behind the second key, only the nearest candidates are worth its call.
VERIFIED_CANDIDATES = 3

Decisions = list[tuple[Passage, Decision]]


async def answer_as_stored(turn: TurnInProgress) -> bool:
    """Give a courtesy, or the best stored answer that both keys let out; `False` where nothing stored may be given."""
    learned = turn.learned
    outcome = "courtesy" if learned.courtesy else "found" if learned.learned else "nothing"
    turn.trace.step("learned", outcome, detail=f"{learned.learned}")
    if learned.courtesy and turn.config.direct_answers and not turn.config.shadow_mode:
        _take(turn, learned.courtesy)
        await turn.say(learned.courtesy.content)
        return True
    direct = await _choose_direct(turn)
    if direct is None:
        return False
    _take(turn, direct)
    await turn.show(number_sources([direct]))
    await turn.say(direct_text(direct))
    # A client that keeps its own thread may say anything of it; a phase or a project has answers of its own.
    if turn.request.given is None and turn.question.scope is None:
        turn.result.choice = choice_made(turn, direct)
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
    decisions = [
        (passage, _decide(passage, turn.asked.text, threshold, None)) for passage in candidates
    ]
    await _verify(turn, decisions, threshold)
    served = next((each for each in decisions if each[1].served), None)
    if served is None:
        turn.trace.step(
            "direct_answer",
            "second_key_refused" if candidates else "no_candidate",
            score=candidates[0].score if candidates else None,
            threshold=threshold,
            refused=[
                stored_refusal(each.question, each.score, "second_key", why.disagreements)
                for each, why in decisions
            ],
        )
        return None
    passage, decision = served
    outcome, detail = "verified" if decision.verified else "served", passage.question
    if rivals := [each for each in candidates if _contradicts(each, passage)]:
        outcome, detail = "contradicted", "\n".join(_place(each) for each in (passage, *rivals))
    elif turn.config.shadow_mode:
        outcome = "shadow"
    turn.trace.step(
        "direct_answer", outcome, score=passage.score, threshold=threshold, detail=detail
    )
    return passage if outcome in ("verified", "served") else None


async def _verify(turn: TurnInProgress, decisions: Decisions, threshold: float) -> None:
    """Where the rules let nothing out, ask the model about the nearest, if staff want that; its calls are counted."""
    if not turn.config.verify_answers or any(decision.served for _passage, decision in decisions):
        return
    verifier = configured_verifier(llm_model=turn.config.llm_model)
    if verifier is None:
        return
    for position, (passage, _refused) in enumerate(decisions[:VERIFIED_CANDIDATES]):
        verdict = await in_thread(_decide, passage, turn.asked.text, threshold, verifier)
        decisions[position] = (passage, verdict)
        turn.answer.llm_calls += verdict.consulted
        if verdict.served:
            return


def _decide(
    passage: Passage, question: str, threshold: float, verifier: ModelVerifier | None
) -> Decision:
    """Pure and short without a verifier; with one it may wait for the model."""
    return would_serve(
        stored=passage.question,
        asked=question,
        score=passage.score,
        threshold=threshold,
        verifier=verifier,
    )


def _contradicts(other: Passage, chosen: Passage) -> bool:
    """Whether the same stored question has another answer elsewhere: which one is meant, its words do not say.

    A document does not contradict a validated answer, which comes first.
    """
    return (
        other.is_faq >= chosen.is_faq
        and normalised_question(other.question) == normalised_question(chosen.question)
        and not same_writing(other.content, chosen.content)
    )


def _place(passage: Passage) -> str:
    where = " › ".join(part for part in (passage.title, passage.parent_context) if part)
    return f"{passage.question} ({where})" if where else passage.question
