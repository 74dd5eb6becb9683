"""The path of one question, top to bottom, in the order of `SPEC.md` section 1.

`run_turn` is a coroutine that awaits `emit`; every exit ends in the same place, where the exchange is saved once and
`Done` is emitted, also when the turn is stopped or fails (then with the partial text). No step mixes database and
network. A dry run takes the same path and writes nothing.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError
from django.utils import translation
from django.utils.translation import gettext as _

from agents.bridges import in_database, in_thread
from agents.effective import EffectiveConfig, current_config
from agents.exceptions import ApplicationError
from agents.llm.base import (
    GenerationOptions,
    LanguageModel,
    PromptMessage,
    Reply,
    language_model,
)
from agents.models import ToolMode
from chat.exceptions import AnswerNotSavedError, ConversationNotFoundError, TurnTimeoutError
from chat.logs import log_turn
from chat.metrics import RUNNING, TurnClock
from chat.models import AnswerSource, StopReason, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Failure, Sources
from chat.rendering import render_answer
from chat.thread.messages import (
    Answer,
    Exchange,
    check_isolation,
    load_exchanges,
    previous_question,
    save_exchange,
)
from chat.thread.rounds import pending_calls
from chat.turn.citations import CitationFilter
from chat.turn.clarification import ask_which, choice_made, clarify, was_offered
from chat.turn.client_threads import GivenContext
from chat.turn.dispatch import dispatch
from chat.turn.follow_ups import StandaloneQuestion, standalone_question
from chat.turn.memory import Learning, lesson_of, recall_answer
from chat.turn.prompt import build_prompt, number_sources
from chat.turn.rewriting import resolved_question
from chat.turn.stored_answers import (
    Emit,
    answer_courtesy,
    answer_directly,
    answer_from_memory,
    choose_direct,
    learned_outcome,
    quote_passages,
    refuse,
    relevance_parts,
)
from chat.turn.summaries import summarised
from chat.turn.tool_loop import ToolLoop, awaiting
from chat.turn.toolbox import Toolbox, ToolGround, choose_tools, load_tool_ground
from chat.turn.trace import Trace
from faqs.choices import Choice
from faqs.learning import scope_of
from faqs.recall import LearnedRecall, MemoryMark, Scope, recall_learned, stored_mark
from faqs.unanswered import Unanswered, unanswered_reason
from knowledge.calibrated import load_calibrations
from knowledge.categories import detect_category
from knowledge.embeddings.base import Embedder, Purpose, Recipe, Vectors, embedder
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


_PAUSED = StopReason.AWAITING_APPROVAL
#: How the last event of a turn that did not fail calls its end.
ENDS: dict[TurnStatus, Literal["done", "interrupted", "awaiting_approval"]] = {
    TurnStatus.DONE: "done",
    TurnStatus.INTERRUPTED: "interrupted",
    TurnStatus.AWAITING_APPROVAL: "awaiting_approval",
}


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What a turn starts from: its settings, the finished exchanges that the prompt gets, the question before this
    one, where the memory stands (`None`: empty or switched off), what tools are chosen from (`None`: there are none), and
    the exchanges with a summary in the place of the old ones (empty: there is none, or staff want none)."""

    config: EffectiveConfig
    history: list[Exchange]
    previous: str
    mark: MemoryMark | None
    tools: ToolGround | None
    summarised: Sequence[Exchange] = ()


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A question to a deployment. `turn_id` is the claimed turn; `None` is a dry run, which stores nothing.

    `user_id`: who asks, `None` for a visitor. `is_resumed`: the turn waited for a person's approval and goes on with
    the round that it planned. `context`: what `load_context` gives, where whoever claimed the turn has read it in the
    same step. `run`: how often it was begun again.
    """

    deployment_id: int
    question: str
    language: str
    turn_id: uuid.UUID | None = None
    conversation_id: uuid.UUID | None = None
    user_id: int | None = None
    #: Of the conversation, where it names them: the memory's scope.
    phase: str = ""
    project: str = ""
    is_first: bool = False
    is_resumed: bool = False
    context: TurnContext | None = None
    run: int = 0
    #: What a client that keeps its own thread said came before, in place of the stored one.
    given: GivenContext | None = None


@dataclass(slots=True)
class TurnResult:
    """How a turn ended: what is saved, and what `ask --json` prints."""

    answer: Answer = field(default_factory=Answer)
    trace: Trace = field(default_factory=Trace)
    status: TurnStatus = TurnStatus.DONE
    error: ApplicationError | None = None
    #: What the answer teaches once it is out (`chat.runs.afterwards`): the memory, ...
    learning: Learning | None = None
    #: ... the question, when nothing stored met it well, ...
    unanswered: Unanswered | None = None
    #: ... which of several close questions was meant, ...
    choice: Choice | None = None
    #: ... and the tools that were chosen for it, where not all are offered anyway.
    chosen_tools: tuple[str, ...] = ()


async def run_turn(request: TurnRequest, emit: Emit) -> TurnResult:
    """Answer one question. Errors of ours end the turn as `Failure`; a cancellation keeps the partial text."""
    result, clock = TurnResult(), TurnClock()

    async def timed(event: Event) -> None:
        if isinstance(event, Delta):
            clock.text()
        await emit(event)

    with translation.override(request.language), RUNNING.track_inprogress():
        try:
            async with asyncio.timeout(settings.TURN_TIMEOUT_SECONDS):
                await _answer(request, result, timed)
            if result.answer.stop_reason == _PAUSED:
                result.status = TurnStatus.AWAITING_APPROVAL
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
            await _uncancelled(_finish(request, result, emit, clock))
    return result


@dataclass(frozen=True, slots=True)
class _Question:
    """The question as every step looks it up: its words, their one vector, and the scope that the memory keeps to."""

    asked: StandaloneQuestion
    vector: Vectors
    model: Embedder
    scope: Scope | None

    @property
    def recipe(self) -> Recipe:
        return self.model.recipe


async def _answer(request: TurnRequest, result: TurnResult, emit: Emit) -> None:
    """The memory, then what was found in the index: a stored answer where one may be given, else the passages."""
    answer, trace = result.answer, result.trace
    context = await _receive(request, answer, trace)
    asked = await _stand_alone(request, context, answer, trace)
    question = await _looked_up(request, context, asked, trace)
    if not request.is_resumed:
        recalled = await recall_answer(
            context.config,
            context.mark,
            asked,
            question.vector,
            question.recipe,
            trace,
            writes=request.turn_id is not None,
            scope=question.scope,
        )
        if recalled is not None:
            return await answer_from_memory(recalled, answer, emit)

    context, found = await _dispatch_and_search(request, context, question, answer, trace)
    learned = recall_learned(found, request.question)
    _trace_search(context.config, learned.result, answer, trace)
    thresholds = thresholds_for(context.config, model=question.recipe.model)
    if not request.is_resumed and await _answer_as_stored(
        request, context, question, learned, thresholds, result, emit
    ):
        return
    await _answer_from_passages(
        request, context, question, learned.result, thresholds, result, emit
    )


async def _answer_as_stored(
    request: TurnRequest,
    context: TurnContext,
    question: _Question,
    learned: LearnedRecall,
    thresholds: Thresholds,
    result: TurnResult,
    emit: Emit,
) -> bool:
    """A courtesy, a direct answer, or the question which was meant; `False` where nothing stored may be given."""
    config, history, asked = context.config, context.history, question.asked
    answer, trace = result.answer, result.trace
    trace.step("learned", learned_outcome(learned), detail=f"{learned.learned}")
    if learned.courtesy is not None and config.direct_answers and not config.shadow_mode:
        await answer_courtesy(learned.courtesy, answer, emit)
        return True
    direct = await choose_direct(config, asked, learned.result, thresholds, answer, trace)
    if direct is not None:
        await answer_directly(direct, answer, emit)
        # A client that keeps its own thread may say anything of it; a phase or a project has answers of its own.
        if request.given is None and question.scope is None:
            result.choice = choice_made(
                config, asked, direct, history, answer, language=request.language
            )
        return True
    options = clarify(config, asked, learned.result, thresholds, history, trace)
    if options:
        await ask_which(options, answer, emit)
    return bool(options)


async def _answer_from_passages(
    request: TurnRequest,
    context: TurnContext,
    question: _Question,
    found: SearchResult,
    thresholds: Thresholds,
    result: TurnResult,
    emit: Emit,
) -> None:
    """Tools and the guard rail, then the model; without a model the passages are quoted."""
    config, answer, trace = context.config, result.answer, result.trace
    llm = language_model()
    toolbox = await _choose_tools(request, context, llm, question, trace)

    inside = found.in_domain(thresholds)
    by_tool = toolbox is not None and toolbox.fits_the_question and not inside.hits
    _trace_guard_rail(found, inside, thresholds, by_tool=by_tool, trace=trace)
    reason = unanswered_reason(found, thresholds, config)
    if reason is not None and config.record_unanswered and not by_tool:
        result.unanswered = Unanswered(
            agent_id=config.agent_id,
            question=question.asked.text,
            vector=question.vector,
            recipe=question.recipe,
            reason=reason,
            score=found.best_score if found.hits else None,
        )
    if not inside.hits and not by_tool:
        return await refuse(config, answer, emit)
    if llm is None:
        return await quote_passages(config, inside, answer, trace, emit)

    passages = [] if by_tool else found.passages(config.match_count)
    await _write_answer(request, context, llm, toolbox, passages, result, emit)
    result.learning = lesson_of(
        config,
        question.asked,
        question.vector,
        question.recipe,
        answer,
        trace,
        question=request.question,
        language=request.language,
        had_context=bool(context.history),
        turn_id=request.turn_id,
        scope=question.scope,
    )


async def _receive(request: TurnRequest, answer: Answer, trace: Trace) -> TurnContext:
    """What the turn starts from, and what it had come to where it goes on."""
    context = request.context
    if context is None:
        context = await in_database(load_context, request)
    if request.is_resumed:
        await in_database(_restore, request, answer, trace)
    outcome = "resumed" if request.is_resumed else "loaded"
    trace.step("receive", outcome, detail=f"{len(context.history)}")
    return context


async def _stand_alone(
    request: TurnRequest, context: TurnContext, answer: Answer, trace: Trace
) -> StandaloneQuestion:
    """The question as it is looked up: as asked, rewritten, or joined to the one before it."""
    previous = "" if was_offered(request.question, context.history) else context.previous
    asked = standalone_question(request.question, previous)
    trace.step("standalone", "follow_up" if asked.is_follow_up else "alone", detail=asked.rule)
    if not asked.is_follow_up:
        return asked
    return await resolved_question(
        asked,
        context.config,
        context.history,
        context.previous,
        request.conversation_id,
        answer,
        trace,
    )


async def _looked_up(
    request: TurnRequest, context: TurnContext, asked: StandaloneQuestion, trace: Trace
) -> _Question:
    model = embedder()
    vector = model.recall(asked.text, purpose=Purpose.QUERY)
    if vector is None:
        vector = await in_thread(model.embed_one, asked.text, purpose=Purpose.QUERY)
    trace.step("embedding", model.recipe.model)
    scope = scope_of(
        phase=request.phase,
        project=request.project,
        deployment_slug=context.config.deployment_slug,
    )
    return _Question(asked, vector, model, scope)


async def _dispatch_and_search(
    request: TurnRequest,
    context: TurnContext,
    question: _Question,
    answer: Answer,
    trace: Trace,
) -> tuple[TurnContext, SearchResult]:
    """What the index of the agent that answers holds, and the context as that agent has it."""
    config = context.config
    search_of = partial(_search, question=question)
    if not config.agents:
        return context, await search_of(config)
    specialist = await dispatch(config, question.model, question.vector, search_of, trace)
    answer.answered_by = specialist.agent
    if specialist.config.agent_id != config.agent_id:
        tools = await in_database(_tool_ground, request, specialist.config)
        context = replace(context, config=specialist.config, tools=tools)
    return context, specialist.found


def _trace_search(
    config: EffectiveConfig, found: SearchResult, answer: Answer, trace: Trace
) -> None:
    answer.best_score = found.best_score
    category = detect_category(found.passages(config.match_count))
    trace.step(
        "search",
        "found" if found.hits else "nothing",
        score=found.best_score,
        detail=category.name if category else "",
    )


def _trace_guard_rail(
    found: SearchResult,
    inside: SearchResult,
    thresholds: Thresholds,
    *,
    by_tool: bool,
    trace: Trace,
) -> None:
    trace.step(
        "guard_rail",
        "passed" if inside.hits else "passed_by_tool" if by_tool else "refused",
        score=found.best_relevance,
        threshold=thresholds.guard_rail_for(found.hits[0]) if found.hits else None,
        detail=relevance_parts(found.hits[0]) if found.hits else "",
    )


async def _write_answer(
    request: TurnRequest,
    context: TurnContext,
    llm: LanguageModel,
    toolbox: Toolbox | None,
    passages: Sequence[Passage],
    result: TurnResult,
    emit: Emit,
) -> None:
    """Prompt and generation, in the tool loop where tools are offered. Raises `IsolationError`."""
    config, answer, trace = context.config, result.answer, result.trace
    told = context.summarised or context.history
    check_isolation(told, request.conversation_id)
    messages = build_prompt(
        config=config,
        history=told,
        passages=passages,
        question=request.question,
        conversation_id=request.conversation_id,
        has_tools=toolbox is not None,
    )
    outcome = "summarised" if context.summarised else "built"
    trace.step("prompt", outcome, detail=f"{len(messages)} messages, {len(passages)} passages")

    answer.sources = [source.as_json() for source in number_sources(passages)]
    await emit(Sources(answer.sources))
    call_model = partial(_generate, llm, config, answer, emit)
    if toolbox is None:
        await call_model(messages)
    else:
        if config.tool_mode != ToolMode.DIRECT and not request.is_resumed:
            result.chosen_tools = tuple(spec.name for spec in toolbox.specs)
        await _use_tools(request, context, toolbox, messages, call_model, answer, trace, emit)
    trace.step("generation", answer.model, detail=f"{answer.completion_tokens} tokens")


def load_context(request: TurnRequest) -> TurnContext:
    """What a turn starts from. Raises `Deployment.DoesNotExist`."""
    config = current_config(request.deployment_id)
    load_calibrations()
    mark = None
    if any(agent.memory for agent in config.of_each_agent):
        mark = stored_mark(request.deployment_id)
    tools = _tool_ground(request, config)
    if request.given is not None:
        return TurnContext(config, list(request.given.history), request.given.previous, mark, tools)
    if request.conversation_id is None or request.is_first:
        return TurnContext(config, [], "", mark, tools)
    history = load_exchanges(
        conversation_id=request.conversation_id, limit=config.context_exchanges
    )
    previous = previous_question(conversation_id=request.conversation_id, turn_id=request.turn_id)
    short = summarised(history) if config.summarise_exchanges else ()
    return TurnContext(config, history, previous, mark, tools, short)


def _tool_ground(request: TurnRequest, config: EffectiveConfig) -> ToolGround | None:
    """What tools are chosen from. A dry run has none: they may change things."""
    if request.turn_id is None or request.conversation_id is None:
        return None
    return load_tool_ground(
        config=config,
        conversation_id=request.conversation_id,
        user_id=request.user_id,
        is_first=request.is_first,
        resumed_turn_id=request.turn_id if request.is_resumed else None,
    )


def _restore(request: TurnRequest, answer: Answer, trace: Trace) -> None:
    """What the turn had come to before its pause."""
    if request.turn_id is None:
        return
    turn = Turn.objects.get(pk=request.turn_id)
    answer.llm_calls = turn.llm_calls
    answer.prompt_tokens, answer.completion_tokens = turn.prompt_tokens, turn.completion_tokens
    answer.rounds, answer.is_personal = turn.rounds, turn.is_personal
    # Whatever way the turn takes from here, the round that it waited for comes into the thread before its answer.
    answer.has_open_round = True
    trace.lines[:0] = turn.trace


async def _search(config: EffectiveConfig, question: _Question) -> SearchResult:
    def nearest() -> SearchResult:
        return search(
            agent_slug=config.agent_slug,
            method=config.indexing_method,
            vector=question.vector,
            recipe=question.recipe,
            limit=config.match_count,
            question=question.asked.text,
            min_score=config.match_threshold,
        )

    def confirmed() -> SearchResult:
        return confirm_passages(nearest(), agent_id=config.agent_id)

    if vector_store().uses_database:
        return await in_database(confirmed)
    found = await in_thread(nearest)
    return await in_database(confirm_passages, found, agent_id=config.agent_id)


async def _choose_tools(
    request: TurnRequest,
    context: TurnContext,
    llm: LanguageModel | None,
    question: _Question,
    trace: Trace,
) -> Toolbox | None:
    """The tools that this turn may use; `None` where none is offered, and it has no round to be finished."""
    if llm is None or not llm.supports_tools:
        return None
    if not context.config.tools_enabled and not request.is_resumed:
        return None
    if context.tools is None:
        trace.step("tools", "dry_run")
        return None
    toolbox = await choose_tools(
        context.tools, context.config, vector=question.vector, question=question.asked.text
    )
    trace.step("tools", "chosen" if toolbox.selected else "none", detail=toolbox.describe())
    return toolbox if toolbox.selected or request.is_resumed else None


async def _use_tools(
    request: TurnRequest,
    context: TurnContext,
    toolbox: Toolbox,
    messages: Sequence[PromptMessage],
    call_model: Callable[..., Awaitable[Reply]],
    answer: Answer,
    trace: Trace,
    emit: Emit,
) -> None:
    """Generate in the bounded loop; where it ends without an answer, a sentence says why."""
    if request.conversation_id is None or request.turn_id is None:
        raise ValueError("Tools run in a stored turn only.")
    loop = ToolLoop(
        conversation_id=request.conversation_id,
        turn_id=request.turn_id,
        config=context.config,
        toolbox=toolbox,
        system=messages[0],
        question=messages[-1],
        language=request.language,
        call_model=call_model,
        emit=emit,
        answer=answer,
        is_first=request.is_first and not request.is_resumed,
        given=messages[1:-1] if request.given is not None else (),
        summary=next(iter(context.summarised), None),
    )
    reason = await loop.run()
    trace.step(
        "tool_loop",
        reason.value,
        detail=f"{answer.rounds} / {loop.results} / {answer.efficiency:g} %",
    )
    if reason in (StopReason.ROUND_LIMIT, StopReason.SATURATED):
        answer.source = AnswerSource.ROUND_LIMIT
        await emit(Delta(answer.text))


async def _generate(
    llm: LanguageModel,
    config: EffectiveConfig,
    answer: Answer,
    emit: Emit,
    messages: Sequence[PromptMessage],
    tools: tuple[Mapping[str, Any], ...] = (),
) -> Reply:
    """Stream one reply of the model into the answer, without citations of sources that were not given."""
    answer.source, answer.model = AnswerSource.LLM, config.llm_model or llm.default_model
    answer.llm_calls += 1
    citations = CitationFilter({source["n"] for source in answer.sources})
    options = GenerationOptions(
        model=config.llm_model,
        temperature=config.temperature,
        max_tokens=config.max_answer_tokens,
        tools=tools,
    )
    pieces: list[str] = []
    reply = Reply(text="", model=answer.model)
    try:
        async with aclosing(llm.stream(messages, options)) as stream:
            async for chunk in stream:
                if text := citations.feed(chunk.text):
                    pieces.append(text)
                    await emit(Delta(text))
                if chunk.final is not None:
                    reply = chunk.final
                    answer.model = reply.model
                    answer.prompt_tokens += reply.usage.prompt_tokens
                    answer.completion_tokens += reply.usage.completion_tokens
    finally:
        if tail := citations.flush():
            pieces.append(tail)
            await emit(Delta(tail))
        answer.text = "".join(pieces)
    return reply


async def _finish(request: TurnRequest, result: TurnResult, emit: Emit, clock: TurnClock) -> None:
    """The one way out of a turn: save it, then say how it ended."""
    answer, message_id = result.answer, None
    if result.error is not None:
        result.trace.step("error", result.error.code, detail=str(result.error))
    if request.turn_id is not None and request.conversation_id is not None:
        result.trace.step("save", result.status.value)
        try:
            message_id = await _save(request.turn_id, request.conversation_id, request.run, result)
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
    clock.ended(
        status=result.status.value,
        source=answer.source,
        llm_calls=answer.llm_calls,
        error_code=result.error.code if result.error else "",
    )
    if result.status is TurnStatus.FAILED:
        await emit(_failure(result.error))
        return
    if result.status is TurnStatus.AWAITING_APPROVAL and request.turn_id is not None:
        # Asked for only now: a decision that came before the pause was stored would find nothing to decide.
        for pending in await in_database(pending_calls, request.turn_id):
            await emit(awaiting(pending.call, round_index=answer.rounds))
    await emit(
        Done(
            status=ENDS[result.status],
            answer_source=answer.source,
            model=answer.model,
            message_id=message_id,
            content=answer.text,
            html=render_answer(
                answer.text,
                turn_id=str(request.turn_id or ""),
                source_numbers={source["n"] for source in answer.sources},
            ),
            agent=answer.answered_by,
        )
    )


async def _save(
    turn_id: uuid.UUID, conversation_id: uuid.UUID, run: int, result: TurnResult
) -> int | None:
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
                run=run,
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
