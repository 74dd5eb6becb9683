"""The exits of the path that need no generation, and how each puts its answer together.

`chat.turn.path` says when an exit is taken; here is what it says then: from the memory, a courtesy, a direct answer, the
refusal, quoted passages. Each emits its sources first, then its text as one delta, so that readers have one code path.
"""

from collections.abc import Awaitable, Callable

from agents.bridges import in_thread
from agents.effective import EffectiveConfig
from chat.models import AnswerSource
from chat.protocol import Delta, Event, Sources
from chat.thread.messages import Answer
from chat.turn.follow_ups import StandaloneQuestion
from chat.turn.prompt import direct_text, number_sources, quoted_text
from chat.turn.trace import Trace
from faqs.recall import LearnedRecall, RecalledAnswer, normalised_question, stored_refusal
from faqs.second_key.decision import Serving, would_serve
from faqs.second_key.verifier import ModelVerifier, configured_verifier
from knowledge.search import Passage, SearchResult, Thresholds

#: The model name of a direct answer (seed 001, section 5.1.2).
DIRECT_MODEL = "direct_qr_match"
#: The same for an answer from the memory: the agent that the question was routed to (seed 000, section 1).
MEMORY_MODEL = "memory_guard"
#: With a model behind the second key, only the nearest candidates are worth its call.
VERIFIED_CANDIDATES = 3

Emit = Callable[[Event], Awaitable[None]]


async def answer_from_memory(recalled: RecalledAnswer, answer: Answer, emit: Emit) -> None:
    answer.source, answer.model = AnswerSource.MEMORY_GUARD, MEMORY_MODEL
    answer.score = recalled.score
    answer.sources = recalled.sources
    await emit(Sources(answer.sources))
    await emit_whole(recalled.text, answer, emit)


def learned_outcome(learned: LearnedRecall) -> str:
    if learned.courtesy is not None:
        return "courtesy"
    return "found" if learned.learned else "nothing"


async def answer_courtesy(passage: Passage, answer: Answer, emit: Emit) -> None:
    """A greeting or thanks: the validated reply, without a source line."""
    answer.source, answer.model, answer.score = AnswerSource.DIRECT_QA, DIRECT_MODEL, passage.score
    answer.learned_id = passage.learned_id
    await emit_whole(passage.content, answer, emit)


async def choose_direct(
    config: EffectiveConfig,
    asked: StandaloneQuestion,
    found: SearchResult,
    thresholds: Thresholds,
    answer: Answer,
    trace: Trace,
) -> Passage | None:
    """The best stored answer that both keys let out: the similarity, then the agreement of the two questions.

    The verifier's calls are counted in `answer`.
    """
    threshold = thresholds.direct_answer
    if asked.is_follow_up or threshold is None:
        outcome = "follow_up" if asked.is_follow_up else "off"
        trace.step("direct_answer", outcome, threshold=threshold)
        return None
    candidates = found.direct_candidates(threshold)
    decisions = [(passage, _decide(passage, asked.text, threshold, None)) for passage in candidates]
    verifier = configured_verifier(llm_model=config.llm_model) if config.verify_answers else None
    if verifier is not None and not any(decision.served for _passage, decision in decisions):
        for position, (passage, _refused) in enumerate(decisions[:VERIFIED_CANDIDATES]):
            verdict = await in_thread(_decide, passage, asked.text, threshold, verifier)
            decisions[position] = (passage, verdict)
            answer.llm_calls += verdict.consulted
            if verdict.served:
                break
    for passage, decision in decisions:
        if decision.served:
            if rivals := [each for each, _ in decisions if _contradicts(each, passage)]:
                trace.step(
                    "direct_answer",
                    "contradicted",
                    score=passage.score,
                    threshold=threshold,
                    detail="\n".join(_place(each) for each in (passage, *rivals)),
                )
                return None
            outcome = "verified" if decision.verified else "served"
            trace.step(
                "direct_answer",
                "shadow" if config.shadow_mode else outcome,
                score=passage.score,
                threshold=threshold,
                detail=passage.question,
            )
            return None if config.shadow_mode else passage
    trace.step(
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


def _contradicts(other: Passage, chosen: Passage) -> bool:
    """Whether the same stored question has another answer elsewhere: which one is meant, its words do not say.

    A document does not contradict a validated answer, which comes first.
    """
    return (
        other.is_faq >= chosen.is_faq
        and normalised_question(other.question) == normalised_question(chosen.question)
        and _plain(other.content) != _plain(chosen.content)
    )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _place(passage: Passage) -> str:
    where = " › ".join(part for part in (passage.title, passage.parent_context) if part)
    return f"{passage.question} ({where})" if where else passage.question


def _decide(
    passage: Passage, question: str, threshold: float, verifier: ModelVerifier | None
) -> Serving:
    """Pure and short without a verifier; with one it may wait for the model."""
    return would_serve(
        stored=passage.question,
        asked=question,
        score=passage.score,
        threshold=threshold,
        verifier=verifier,
    )


async def answer_directly(passage: Passage, answer: Answer, emit: Emit) -> None:
    answer.source, answer.model, answer.score = AnswerSource.DIRECT_QA, DIRECT_MODEL, passage.score
    answer.learned_id = passage.learned_id
    answer.sources = [source.as_json() for source in number_sources([passage])]
    await emit(Sources(answer.sources))
    await emit_whole(direct_text(passage), answer, emit)


async def refuse(config: EffectiveConfig, answer: Answer, emit: Emit) -> None:
    answer.source = AnswerSource.GUARD_RAIL
    await emit_whole(config.guard_rail_message, answer, emit)


async def quote_passages(
    config: EffectiveConfig, inside: SearchResult, answer: Answer, trace: Trace, emit: Emit
) -> None:
    """Without a model: the best passages inside the guard rail, quoted with their source."""
    passages = inside.passages(config.extractive_passages)
    answer.source, answer.score = AnswerSource.EXTRACTIVE, passages[0].score
    answer.sources = [source.as_json() for source in number_sources(passages)]
    trace.step("extractive", "quoted", score=answer.score, detail=f"{len(passages)} passages")
    await emit(Sources(answer.sources))
    await emit_whole(quoted_text(passages), answer, emit)


def relevance_parts(best: Passage) -> str:
    """What the relevance is made of, for `chat.staff.explanation`; nothing where it is a cosine alone."""
    return f"{best.score:.2f} {best.overlap:.2f}" if best.lift else ""


async def emit_whole(text: str, answer: Answer, emit: Emit) -> None:
    answer.text = text
    await emit(Delta(text))
