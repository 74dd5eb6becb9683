"""The path of one question, top to bottom, in the order in which `docs/architecture.md` tells it.

Every exit of `run_turn` ends in the same place, where the exchange is saved once and `Done` is emitted, also when the
turn is stopped or fails. No step mixes database and network. A dry run writes nothing and is in no figure.
"""

import asyncio
import uuid
from collections.abc import Awaitable
from functools import partial

from django.conf import settings
from django.db import DatabaseError
from django.utils import translation

from agents.database import in_database
from agents.errors import ApplicationError, StorageUnavailableError
from agents.llm.base import language_model
from chat.errors import AnswerNotSavedError, ConversationNotFoundError, TurnTimeoutError
from chat.models import StopReason, TurnStatus
from chat.protocol import Delta, Done, Event, Failure
from chat.telemetry import RUNNING, TurnClock, log_turn
from chat.thread.messages import still_there
from chat.thread.rounds import pending_calls
from chat.thread.turns import save_exchange
from chat.turn.dispatch import dispatch_and_search, embed_question
from chat.turn.generation import generate, offer_tools, quote_passages
from chat.turn.guard_rail import refuse_outside
from chat.turn.prompt import receive
from chat.turn.standalone import answer_courtesy, follow_up_rule, make_standalone, read_question
from chat.turn.stored_answers import answer_as_stored, answer_from_memory, ask_which
from chat.turn.tool_loop import awaiting
from chat.turn.values import Emit, TurnInProgress, TurnRequest, TurnResult, shown_reading
from faqs.learning import Lesson, reason_not_to_learn, remember_answer
from knowledge.language.words import language_of


async def answer_question(turn: TurnInProgress) -> None:
    """Run the steps in order; each fills its part of the turn, and the first that answers ends the path."""
    await receive(turn)
    # A turn that waited for a person's approval goes on with the round of tools that it had planned.
    is_new = not turn.request.is_resumed
    if is_new and await answer_courtesy(turn):
        return
    await read_question(turn)
    asked = await make_standalone(turn)
    await embed_question(turn, asked)
    if is_new and await answer_from_memory(turn):
        return
    await dispatch_and_search(turn)
    if is_new and (await answer_as_stored(turn) or await ask_which(turn)):
        return
    if turn.request.without_model:
        return
    llm = language_model()
    await offer_tools(turn, llm)
    if await refuse_outside(turn):
        return
    if llm is None:
        await quote_passages(turn)
        return
    await generate(turn, llm)
    teach(turn)


def teach(turn: TurnInProgress) -> None:
    """Plan a lesson for the memory from the answer, or record in the trace why there is none."""
    request, question, answer = turn.request, turn.question, turn.answer
    lesson = Lesson(
        deployment_id=turn.config.deployment.pk,
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
        agent_ids=[each.agent.pk for each in turn.config.of_each_agent],
        asked_at=turn.started_at,
        validated=_validated(turn),
        forms=turn.context.forms,
        used_tools=answer.used_tools or answer.is_personal or answer.had_tool_results,
    )
    reason = reason_not_to_learn(lesson, turn.config.memory_learning)
    if answer.defect:
        reason = answer.defect if answer.defect in ("unsupported", "other_subject") else "failed_check"
    elif answer.cut:
        reason = "cut"
    # What it comes to is known once it is out (`chat.runs.afterwards`).
    turn.trace.step("learn", "not_kept" if reason else "planned", detail=reason)
    if not reason:
        turn.result.learning = partial(
            remember_answer, lesson, mode=turn.config.memory_learning, max_age_days=turn.config.memory_max_age_days
        )


def _validated(turn: TurnInProgress) -> list[tuple[int | None, str]]:
    """The validated answers that were found for the question, each with the number under which the model was given it."""
    given = {source["learned_id"]: source["n"] for source in turn.answer.sources if source.get("learned_id")}
    hits = (hit for hit in turn.found.hits if hit.is_faq)
    return [(given.get(hit.learned_id), hit.question) for hit in hits]


async def run_turn(request: TurnRequest, emit: Emit) -> TurnResult:
    """Answer one question. Errors of ours end the turn as `Failure`; a cancellation keeps the partial text."""
    clock = TurnClock()

    async def timed(event: Event) -> None:
        if isinstance(event, Delta) and not request.is_dry_run:
            clock.text()
        await emit(event)

    turn = TurnInProgress(request, timed)
    result = turn.result
    # « 1 an » is no English: one small word alone does not outweigh the page's language.
    result.language = language_of(request.question, least=2) or request.language
    with translation.override(result.language), RUNNING.track_inprogress():
        try:
            async with asyncio.timeout(settings.TURN_TIMEOUT_SECONDS):
                with still_there():
                    await answer_question(turn)
            if result.answer.stop_reason == StopReason.AWAITING_APPROVAL:
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


async def _finish(request: TurnRequest, result: TurnResult, emit: Emit, clock: TurnClock) -> None:
    """End a turn, however it went: save it, then emit how it ended."""
    answer, message_id = result.answer, None
    if result.error is not None:
        result.trace.step("error", result.error.code, detail=str(result.error))
    if request.turn_id is not None and request.conversation_id is not None:
        result.trace.step("save", result.status.value)
        try:
            message_id = await _save(request.turn_id, request.conversation_id, request.run, result)
        except ConversationNotFoundError as error:
            if result.status is not TurnStatus.INTERRUPTED:
                result.status, result.error = TurnStatus.FAILED, error
        except AnswerNotSavedError as error:
            # Nothing was lost with a turn that the database itself had ended before it said anything.
            if answer.text or not isinstance(result.error, StorageUnavailableError):
                result.status, result.error = TurnStatus.FAILED, error
    facts = {
        "round_id": request.turn_id,
        "conversation_id": request.conversation_id,
        "deployment_id": request.deployment_id,
        "status": result.status.value,
        "answer_source": answer.source,
        "llm_calls": answer.llm_calls,
        "duration_ms": clock.milliseconds(),
    }
    failure = result.error or result.model_error
    log_turn(facts, failure)
    # A try's settings may name a model that is not there: the site's is no worse for it.
    if not request.is_dry_run:
        clock.ended(
            status=result.status.value,
            source=answer.source,
            llm_calls=answer.llm_calls,
            error_code=failure.code if failure else "",
            detail=str(failure or ""),
        )
    if result.status is TurnStatus.FAILED:
        await emit(Failure.of(result.error) if result.error else Failure.of_code(ApplicationError.code))
        return
    if result.status is TurnStatus.AWAITING_APPROVAL and request.turn_id is not None:
        # Asked for only now: a decision that came before the pause was stored would find nothing to decide.
        for pending in await in_database(pending_calls, request.turn_id):
            await emit(awaiting(pending.call, round_index=answer.rounds))
    await emit(
        Done(
            status=result.status.value,
            answer_source=answer.source,
            model=answer.model,
            message_id=message_id,
            content=answer.text,
            turn_id=str(request.turn_id or ""),
            source_numbers=[source["n"] for source in answer.sources],
            agent=answer.answered_by,
            score=answer.score,
            cut=answer.cut,
            read_as=shown_reading(result.trace.lines),
        )
    )


async def _save(turn_id: uuid.UUID, conversation_id: uuid.UUID, run: int, result: TurnResult) -> int | None:
    """Save the exchange, trying again while the database is in trouble: the answer exists nowhere else."""
    for pause in (*settings.SAVE_RETRY_SECONDS, None):
        try:
            return await in_database(
                save_exchange,
                turn_id=turn_id,
                conversation_id=conversation_id,
                run=run,
                status=result.status,
                text=result.answer.text,
                sources=result.answer.sources,
                columns=result.columns(),
                has_open_round=result.answer.has_open_round,
            )
        except DatabaseError as error:
            if pause is None:
                raise AnswerNotSavedError(f"Turn {turn_id} could not be saved: {error}") from error
            await asyncio.sleep(pause)
    raise AssertionError


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
