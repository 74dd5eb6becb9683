"""The path of one question, top to bottom, in the order of `SPEC.md` section 1.

`run_turn` is a coroutine that awaits `emit`; every exit ends in the same place, where the exchange is saved once and
`Done` is emitted, also when the turn is stopped or fails (then with the partial text). No step mixes database and
network. A dry run takes the same path and writes nothing.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError
from django.utils import translation
from django.utils.translation import gettext as _

from agents.bridges import in_database, in_thread
from agents.effective import EffectiveConfig, current_config
from agents.exceptions import ApplicationError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, language_model
from chat.citations import CitationFilter
from chat.exceptions import AnswerNotSavedError, ConversationNotFoundError, TurnTimeoutError
from chat.models import AnswerSource, TurnStatus
from chat.prompting import build_prompt, direct_text, number_sources, quoted_text
from chat.protocol import Delta, Done, Event, Failure, Sources
from chat.rendering import render_answer
from chat.standalone import StandaloneQuestion, follow_up_rule, standalone_question
from chat.thread import (
    Answer,
    Exchange,
    check_isolation,
    load_exchanges,
    previous_question,
    rename_conversation,
    save_exchange,
)
from chat.titles import generate_title
from chat.tracing import Trace, log_turn
from faqs.agreement import compare_questions
from faqs.learning import Lesson, reason_not_to_learn, remember_answer
from faqs.recall import (
    Lookup,
    MemoryMark,
    RecalledAnswer,
    memory_threshold,
    recall_cached,
    stored_mark,
)
from knowledge.embeddings.base import Embedder, Purpose, Vectors, embedder
from knowledge.search import (
    Passage,
    SearchResult,
    Thresholds,
    confirm_passages,
    search,
    thresholds_for,
)
from knowledge.vectors.base import vector_store

logger = logging.getLogger(__name__)

#: The model name of a direct answer (seed 001, section 5.1.2).
DIRECT_MODEL = "direct_qr_match"
#: The same for an answer from the memory: the agent that the question was routed to (seed 000, section 1).
MEMORY_MODEL = "memory_guard"

Emit = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A question to a deployment. `turn_id` is the claimed turn; `None` is a dry run, which stores nothing."""

    deployment_id: int
    question: str
    language: str
    turn_id: uuid.UUID | None = None
    conversation_id: uuid.UUID | None = None
    is_first: bool = False


@dataclass(slots=True)
class TurnResult:
    """How a turn ended: what is saved, and what `ask --json` prints."""

    answer: Answer = field(default_factory=Answer)
    trace: Trace = field(default_factory=Trace)
    status: TurnStatus = TurnStatus.DONE
    error: ApplicationError | None = None
    learning: "Learning | None" = None


@dataclass(frozen=True, slots=True)
class Learning:
    """What the memory is given once the turn is saved, and under which settings."""

    lesson: Lesson
    mode: str
    max_age_days: int


async def run_turn(request: TurnRequest, emit: Emit) -> TurnResult:
    """Answer one question. Errors of ours end the turn as `Failure`; a cancellation keeps the partial text."""
    result = TurnResult()
    with translation.override(request.language):
        try:
            async with asyncio.timeout(settings.TURN_TIMEOUT_SECONDS):
                await _answer(request, result, emit)
        except asyncio.CancelledError:
            result.status = TurnStatus.INTERRUPTED
            raise
        except TimeoutError:
            result.status, result.error = TurnStatus.FAILED, TurnTimeoutError()
        except ApplicationError as error:
            result.status, result.error = TurnStatus.FAILED, error
        except BaseException:
            result.status = TurnStatus.FAILED
            raise
        finally:
            await _uncancelled(_finish(request, result, emit))
    await _learn(request, result)
    return result


async def _answer(request: TurnRequest, result: TurnResult, emit: Emit) -> None:
    answer, trace = result.answer, result.trace
    context = await in_database(_load_context, request)
    config, history = context.config, context.history
    trace.step("receive", "loaded", detail=f"{len(history)}")

    asked = standalone_question(request.question, context.previous)
    trace.step("standalone", "follow_up" if asked.is_follow_up else "alone", detail=asked.rule)

    model = embedder()
    vector = model.recall(asked.text, purpose=Purpose.QUERY)
    if vector is None:
        vector = await in_thread(model.embed_one, asked.text, purpose=Purpose.QUERY)
    trace.step("embedding", model.recipe.model)

    recalled = await _recall(request, config, context.mark, asked, model, vector, trace)
    if recalled is not None:
        return await _answer_from_memory(recalled, answer, emit)

    found = await _search(config, model, vector)
    thresholds = thresholds_for(config, model=model.recipe.model)
    answer.best_score = found.best_score
    trace.step("search", "found" if found.hits else "nothing", score=found.best_score)

    direct = _direct_answer(request.question, asked, found, thresholds, trace)
    if direct is not None:
        return await _answer_directly(direct, answer, emit)

    inside = found.in_domain(thresholds)
    trace.step(
        "guard_rail",
        "passed" if inside.hits else "refused",
        score=found.best_score,
        threshold=thresholds.guard_rail_for(found.hits[0]) if found.hits else None,
    )
    if found.is_out_of_domain(thresholds):
        return await _refuse(config, answer, emit)

    llm = language_model()
    if llm is None:
        return await _quote_passages(config, inside, answer, trace, emit)

    passages = found.passages(config.match_count)
    check_isolation(history, request.conversation_id)
    messages = build_prompt(
        config=config,
        history=history,
        passages=passages,
        question=request.question,
    )
    trace.step("prompt", "built", detail=f"{len(messages)} messages, {len(passages)} passages")

    answer.sources = [source.as_json() for source in number_sources(passages)]
    await emit(Sources(answer.sources))
    await _generate(llm, config, messages, answer, emit)
    trace.step("generation", answer.model, detail=f"{answer.completion_tokens} tokens")
    result.learning = _lesson(request, config, asked, history, model, vector, answer, trace)


@dataclass(frozen=True, slots=True)
class _Context:
    """The settings, the finished exchanges that the prompt gets, the question before this one, and where the memory
    stands (`None`: empty or switched off)."""

    config: EffectiveConfig
    history: list[Exchange]
    previous: str
    mark: MemoryMark | None


def _load_context(request: TurnRequest) -> _Context:
    config = current_config(request.deployment_id)
    mark = stored_mark(request.deployment_id) if config.memory else None
    if request.conversation_id is None or request.is_first:
        return _Context(config, [], "", mark)
    history = load_exchanges(
        conversation_id=request.conversation_id, limit=config.context_exchanges
    )
    previous = previous_question(conversation_id=request.conversation_id, turn_id=request.turn_id)
    return _Context(config, history, previous, mark)


async def write_title(request: TurnRequest, result: TurnResult) -> None:
    """Have the model name a conversation after its first answer, where staff want that. Never delays an answer."""
    llm, conversation_id, turn_id = language_model(), request.conversation_id, request.turn_id
    if llm is None or turn_id is None or conversation_id is None or not request.is_first:
        return
    if result.answer.source != AnswerSource.LLM or result.status is not TurnStatus.DONE:
        return
    config = await in_database(current_config, request.deployment_id)
    if not config.generate_titles:
        return
    title = await generate_title(llm, question=request.question, llm_model=config.llm_model)
    if title:
        await in_database(
            rename_conversation,
            conversation_id=conversation_id,
            turn_id=turn_id,
            title=title,
            question=request.question,
        )


async def _recall(
    request: TurnRequest,
    config: EffectiveConfig,
    mark: MemoryMark | None,
    asked: StandaloneQuestion,
    model: Embedder,
    vector: Vectors,
    trace: Trace,
) -> RecalledAnswer | None:
    """The memory guard. Where there is nothing to look at, nothing is awaited."""
    threshold = memory_threshold(config, model=model.recipe.model)
    if asked.is_follow_up or threshold is None or mark is None:
        trace.step(
            "memory_guard",
            "follow_up" if asked.is_follow_up else "off" if threshold is None else "empty",
            threshold=threshold,
        )
        return None
    lookup = Lookup(
        question=asked.text,
        threshold=threshold,
        max_age_days=config.memory_max_age_days,
        auto_prune=config.memory_auto_prune,
        writes=request.turn_id is not None,
    )
    found = await in_database(recall_cached, mark, lookup, vector=vector, recipe=model.recipe)
    served = [found.answer.question] if found.answer is not None else []
    # The route of seed 000, section 2: the step is the `next_agent`, its outcome the `action`.
    trace.step(
        "memory_guard",
        "respond_from_memory" if served else "refused" if found.refused else "no_candidate",
        score=found.best_score,
        threshold=threshold,
        detail="\n".join([*served, *map(str, found.refused)]),
    )
    return found.answer


async def _answer_from_memory(recalled: RecalledAnswer, answer: Answer, emit: Emit) -> None:
    answer.source, answer.model = AnswerSource.MEMORY_GUARD, MEMORY_MODEL
    answer.score = recalled.score
    answer.sources = recalled.sources
    await emit(Sources(answer.sources))
    await _emit_whole(recalled.text, answer, emit)


async def _search(config: EffectiveConfig, model: Embedder, vector: Vectors) -> SearchResult:
    def nearest() -> SearchResult:
        return search(
            agent_slug=config.agent_slug,
            method=config.indexing_method,
            vector=vector,
            recipe=model.recipe,
            limit=config.match_count,
            min_score=config.match_threshold,
        )

    def confirmed() -> SearchResult:
        return confirm_passages(nearest(), agent_id=config.agent_id)

    if vector_store().uses_database:
        return await in_database(confirmed)
    found = await in_thread(nearest)
    return await in_database(confirm_passages, found, agent_id=config.agent_id)


def _direct_answer(
    question: str,
    asked: StandaloneQuestion,
    found: SearchResult,
    thresholds: Thresholds,
    trace: Trace,
) -> Passage | None:
    """The best stored answer that both keys let out: the similarity, then the agreement of the two questions."""
    if asked.is_follow_up or thresholds.direct_answer is None:
        outcome = "follow_up" if asked.is_follow_up else "off"
        trace.step("direct_answer", outcome, threshold=thresholds.direct_answer)
        return None
    candidates = found.direct_candidates(thresholds.direct_answer)
    refusals = []
    for passage in candidates:
        agreement = compare_questions(passage.question, question)
        if agreement.agrees:
            trace.step(
                "direct_answer",
                "served",
                score=passage.score,
                threshold=thresholds.direct_answer,
                detail=passage.question,
            )
            return passage
        refusals.append(f"{passage.question} : {agreement.explain()}")
    trace.step(
        "direct_answer",
        "second_key_refused" if candidates else "no_candidate",
        score=candidates[0].score if candidates else None,
        threshold=thresholds.direct_answer,
        detail="\n".join(refusals),
    )
    return None


async def _answer_directly(passage: Passage, answer: Answer, emit: Emit) -> None:
    answer.source, answer.model, answer.score = AnswerSource.DIRECT_QA, DIRECT_MODEL, passage.score
    answer.sources = [source.as_json() for source in number_sources([passage])]
    await emit(Sources(answer.sources))
    await _emit_whole(direct_text(passage), answer, emit)


async def _refuse(config: EffectiveConfig, answer: Answer, emit: Emit) -> None:
    answer.source = AnswerSource.GUARD_RAIL
    await _emit_whole(config.guard_rail_message, answer, emit)


async def _quote_passages(
    config: EffectiveConfig, inside: SearchResult, answer: Answer, trace: Trace, emit: Emit
) -> None:
    """Without a model: the best passages inside the guard rail, quoted with their source."""
    passages = inside.passages(config.extractive_passages)
    answer.source, answer.score = AnswerSource.EXTRACTIVE, passages[0].score
    answer.sources = [source.as_json() for source in number_sources(passages)]
    trace.step("extractive", "quoted", score=answer.score, detail=f"{len(passages)} passages")
    await emit(Sources(answer.sources))
    await _emit_whole(quoted_text(passages), answer, emit)


async def _generate(
    llm: LanguageModel,
    config: EffectiveConfig,
    messages: list[PromptMessage],
    answer: Answer,
    emit: Emit,
) -> None:
    """Stream the model's reply into the answer, without citations of sources that were not given."""
    answer.source, answer.model = AnswerSource.LLM, config.llm_model or llm.default_model
    answer.llm_calls += 1
    citations = CitationFilter({source["n"] for source in answer.sources})
    options = GenerationOptions(
        model=config.llm_model,
        temperature=config.temperature,
        max_tokens=config.max_answer_tokens,
    )
    pieces: list[str] = []
    try:
        async with aclosing(llm.stream(messages, options)) as stream:
            async for chunk in stream:
                if text := citations.feed(chunk.text):
                    pieces.append(text)
                    await emit(Delta(text))
                if chunk.final is not None:
                    answer.model = chunk.final.model
                    answer.prompt_tokens = chunk.final.usage.prompt_tokens
                    answer.completion_tokens = chunk.final.usage.completion_tokens
    finally:
        if tail := citations.flush():
            pieces.append(tail)
            await emit(Delta(tail))
        answer.text = "".join(pieces)


def _lesson(
    request: TurnRequest,
    config: EffectiveConfig,
    asked: StandaloneQuestion,
    history: list[Exchange],
    model: Embedder,
    vector: Vectors,
    answer: Answer,
    trace: Trace,
) -> Learning | None:
    """The answer as a lesson for the memory, or the reason why it is none in the trace."""
    lesson = Lesson(
        deployment_id=config.deployment_id,
        question=asked.text,
        answer=answer.text,
        vector=vector,
        recipe=model.recipe,
        sources=answer.sources,
        language=request.language,
        author=answer.model,
        score=answer.best_score,
        is_follow_up=asked.is_follow_up or bool(follow_up_rule(request.question)),
        had_context=bool(history),
        source_turn=request.turn_id,
    )
    reason = reason_not_to_learn(lesson, config.memory_learning)
    trace.step("learn", "not_kept" if reason else "kept", detail=reason)
    if reason:
        return None
    return Learning(lesson, config.memory_learning, config.memory_max_age_days)


async def _learn(request: TurnRequest, result: TurnResult) -> None:
    """After the answer was shown and saved; an entry that cannot be written costs nobody an answer."""
    learning = result.learning
    if learning is None or request.turn_id is None or result.status is not TurnStatus.DONE:
        return
    try:
        await in_database(
            remember_answer,
            learning.lesson,
            mode=learning.mode,
            max_age_days=learning.max_age_days,
        )
    except DatabaseError:
        logger.exception("answer not remembered round_id=%s", request.turn_id)


async def _emit_whole(text: str, answer: Answer, emit: Emit) -> None:
    answer.text = text
    await emit(Delta(text))


async def _finish(request: TurnRequest, result: TurnResult, emit: Emit) -> None:
    """The one way out of a turn: save it, then say how it ended."""
    answer, message_id = result.answer, None
    if result.error is not None:
        result.trace.step("error", result.error.code, detail=str(result.error))
    if request.turn_id is not None and request.conversation_id is not None:
        result.trace.step("save", result.status.value)
        try:
            message_id = await _save(request.turn_id, request.conversation_id, result)
        except ConversationNotFoundError as error:
            # Stopped because its conversation was deleted: nothing is left to be saved in.
            if result.status is not TurnStatus.INTERRUPTED:
                result.status, result.error = TurnStatus.FAILED, error
        except AnswerNotSavedError as error:
            result.status, result.error = TurnStatus.FAILED, error
    log_turn(
        request.turn_id,
        result.status.value,
        answer_source=answer.source,
        llm_calls=answer.llm_calls,
        error=result.error,
    )
    if result.status is TurnStatus.FAILED:
        await emit(_failure(result.error))
        return
    await emit(
        Done(
            status="interrupted" if result.status is TurnStatus.INTERRUPTED else "done",
            answer_source=answer.source,
            model=answer.model,
            message_id=message_id,
            content=answer.text,
            html=render_answer(
                answer.text,
                turn_id=str(request.turn_id or ""),
                source_numbers={source["n"] for source in answer.sources},
            ),
        )
    )


async def _save(turn_id: uuid.UUID, conversation_id: uuid.UUID, result: TurnResult) -> int | None:
    """Save the exchange, trying again while the database is in trouble: the answer exists nowhere else."""
    for pause in (*settings.SAVE_RETRY_SECONDS, None):
        try:
            return await in_database(
                save_exchange,
                turn_id=turn_id,
                conversation_id=conversation_id,
                answer=result.answer,
                status=result.status,
                trace=result.trace.lines,
                error_code=result.error.code if result.error else "",
            )
        except DatabaseError as error:
            if pause is None:
                raise AnswerNotSavedError(f"Turn {turn_id} could not be saved: {error}") from error
            await asyncio.sleep(pause)
    raise AssertionError


def _failure(error: ApplicationError | None) -> Failure:
    if error is not None:
        return Failure.of(error)
    return Failure("internal_error", _("Une erreur interne est survenue."), retryable=False)


async def _uncancelled(work: Awaitable[None]) -> None:
    """Await `work` to its end, also when the turn is cancelled meanwhile, even twice."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
    task.result()
