"""The tools of a turn: what their choice starts from, the choice, and the bounded loop (seed 002).

`load_tool_ground` is part of the step that claims a turn; it costs no query where nothing changed. In the loop: call,
run what was asked for, persist, reload, recall. Every recall is built from the thread in the database; a round is
planned before its tools run and each result stored as it comes, so that a crash leaves nothing to be run twice. It ends
with a `StopReason`, never with an exception.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext as _

from agents.database import in_database, in_thread
from agents.effective import EffectiveConfig
from agents.errors import LLMToolsRefusedError
from agents.llm.base import PromptMessage, Reply, RequestedCall
from chat.errors import ThreadConflictError
from chat.models import Approval, ExecutionState, Message, Role, StopReason, ToolExecution, ToolRound
from chat.protocol import Delta, Tool, ToolStatus
from chat.telemetry import log_batch, log_model_call, log_tool_calls
from chat.thread.messages import (
    after_turn,
    blocks,
    check_isolation,
    failure_content,
    fitting_history,
    parsed_object,
    pruned,
)
from chat.thread.rounds import (
    LoopState,
    Thread,
    apply_round,
    finish_call,
    load_loop,
    offered_names,
    operation_id_of,
    plan_round,
    recent_tools,
    start_call,
)
from chat.turn.values import Toolbox, ToolGround, TurnInProgress, TurnRequest
from knowledge.embeddings.base import Vectors
from tools_registry.catalog import ToolList, tools_at_hand
from tools_registry.execution import TOOL_PARALLEL_CALLS, ToolCall, execute_calls
from tools_registry.selection import (
    SelectedTool,
    SelectionReason,
    effective_threshold,
    mode_in_use,
    select_tools,
    tool_selector,
)
from tools_registry.tool import ToolContext, ToolSpec, normalised_calls

#: The tools of so many last calls stay offered.
RECENT_CALLS = 10


def load_tool_ground(request: TurnRequest, config: EffectiveConfig) -> ToolGround | None:
    """Read what the choice of tools needs; `None` for a dry run, as tools may change things."""
    if request.turn_id is None or request.conversation_id is None:
        return None
    candidates, user_id = ToolList(), request.user_id
    if config.tools_enabled:
        candidates = tools_at_hand(user_id=user_id, agent_id=config.agent.pk)
    kept = offered_names(request.turn_id) if request.is_resumed else None
    selector = tool_selector(mode_in_use(config, candidates))
    if kept is not None or not candidates or selector is None:
        return ToolGround(candidates, user_id, kept=kept)
    selector.prepare(candidates)
    # Nothing was used before the first question, and a mode that offers every tool has no use for the answer.
    recent = [] if request.is_first else recent_tools(request.conversation_id, limit=RECENT_CALLS)
    return ToolGround(candidates, user_id, recent=recent)


async def choose_tools(ground: ToolGround, config: EffectiveConfig, *, vector: Vectors, question: str) -> Toolbox:
    """The tools that this question may use. A turn that goes on after a pause keeps those it had."""
    if ground.kept is not None:
        named = [ground.candidates.named(name) for name in ground.kept]
        tools = [SelectedTool(spec, None, SelectionReason.SIMILAR) for spec in named if spec]
        return Toolbox(tuple(tools), ground.user_id, is_resumed=True)
    selector = tool_selector(mode_in_use(config, ground.candidates))
    if selector is None:
        return _chosen(ground, config, vector, question)
    bridge = in_database if selector.uses_database else in_thread
    return await bridge(_chosen, ground, config, vector, question)


def _chosen(ground: ToolGround, config: EffectiveConfig, vector: Vectors, question: str) -> Toolbox:
    selected = select_tools(
        question_vector=vector, question=question, candidates=ground.candidates, recent=ground.recent, config=config
    )
    return Toolbox(
        tuple(selected),
        ground.user_id,
        has_threshold=effective_threshold(config) is not None,
        is_everything=tool_selector(mode_in_use(config, ground.candidates)) is None,
    )


#: A batch that met another writer is replayed so often, first after so long, then after twice that, and so on.
BATCH_TRIES = 3
BATCH_RETRY_SECONDS = 0.05

logger = logging.getLogger(__name__)

#: One call of the model, streamed to the reader: messages and tool definitions in, the whole reply out.
CallModel = Callable[[Sequence[PromptMessage], tuple[Mapping[str, Any], ...]], Awaitable[Reply]]

#: An answer made with the desk's own search may be learned.
OWN_SEARCH = "search_knowledge"
#: Recalls without progress after which the loop ends.
SATURATION = 3


class ToolLoop:
    """The loop of one turn. The first and the last message frame every prompt; the database holds what lies between."""

    def __init__(
        self,
        turn: TurnInProgress,
        toolbox: Toolbox,
        messages: Sequence[PromptMessage],
        call_model: CallModel,
        room: int | None,
    ) -> None:
        """`room`: the characters of exchanges and results together. Raises `ValueError` for a turn not stored."""
        request = turn.request
        if request.conversation_id is None or request.turn_id is None:
            raise ValueError("Tools run in a stored turn only.")
        self.conversation_id, self.turn_id = request.conversation_id, request.turn_id
        self.turn, self.toolbox, self.call_model = turn, toolbox, call_model
        self.config, self.answer, self.emit = turn.config, turn.answer, turn.emit
        self.room = room
        self.system, self.question = messages[0], messages[-1]
        #: Earlier exchanges that the client gave, as the prompt shows them: they are not in the thread.
        self.given = messages[1:-1] if request.given is not None else ()
        #: What stands in the place of the thread up to the end of its turn (`chat.runs.afterwards`).
        self.summary = next(iter(turn.context.summarised), None)
        self.results = 0
        #: What the model said last.
        self.reply: Reply | None = None
        self._functions: tuple[Mapping[str, Any], ...] = tuple(spec.as_function() for spec in toolbox.specs)

    async def run(self) -> StopReason:
        """Fill the answer; returns why the loop ended. When cancelled, stored rounds stay; the answer says so."""
        answer = self.answer
        try:
            answer.stop_reason = await self._run()
        except asyncio.CancelledError:
            answer.stop_reason = StopReason.CANCELLED
            raise
        finally:
            answer.efficiency = efficiency(
                rounds=answer.rounds, results=self.results, max_rounds=self.config.max_rounds
            )
        return StopReason(answer.stop_reason)

    async def _run(self) -> StopReason:
        state = await self._load()
        while True:
            planned = state.pending
            if planned is None:
                reply = await self._call(state)
                calls = normalised_calls(reply.tool_calls, limit=self.config.max_tool_calls)
                if (reason := self._reason_to_stop(state, calls)) is not None:
                    return reason
                planned = await self._plan(state, reply.text, calls)
            if any(call.approval == Approval.PENDING for call in planned.executions.all()):
                return StopReason.AWAITING_APPROVAL
            await self._run_calls(planned)
            await self._persist(planned, state.thread.version)
            state = await self._load()

    def _reason_to_stop(self, state: LoopState, calls: Sequence[RequestedCall]) -> StopReason | None:
        if not calls:
            return StopReason.ANSWERED
        if state.rounds >= self.config.max_rounds:
            self.answer.text = _(
                "Je n’ai pas pu terminer cette réponse : la limite de %(limit)d relances est atteinte, "
                "et des outils étaient encore demandés."
            ) % {"limit": self.config.max_rounds}
            return StopReason.ROUND_LIMIT
        own = [message for message in state.thread.messages if message.turn_id == self.turn_id]
        if is_saturated([block for block in blocks(own) if block[0].tool_calls], calls):
            self.answer.text = _(
                "Je n’ai pas pu terminer cette réponse : les outils n’apportaient plus rien de nouveau."
            )
            return StopReason.SATURATED
        return None

    async def _load(self) -> LoopState:
        state = await in_database(
            load_loop,
            conversation_id=self.conversation_id,
            turn_id=self.turn_id,
            limit=max(self.config.history_messages, self.config.max_tool_calls + 1),
        )
        self.answer.rounds = state.rounds
        self.answer.is_personal = state.is_personal
        self.answer.has_open_round = state.pending is not None
        self.results = state.results
        own = (each for each in state.thread.messages if each.turn_id == self.turn_id and each.role == Role.TOOL)
        self.answer.used_tools |= any(each.name != OWN_SEARCH for each in own)
        return state

    async def _call(self, state: LoopState) -> Reply:
        messages = self.messages(state.thread)
        check_isolation(messages, self.conversation_id)
        log_model_call(
            messages,
            turn_id=self.turn_id,
            operation_id=operation_id_of(self.conversation_id, self.turn_id, state.rounds),
            round_index=state.rounds,
        )
        reply = self.reply = await self._asked(messages)
        if reply.tool_calls and reply.text:
            await self.emit(Delta("\n\n"))
        return reply

    async def _asked(self, messages: Sequence[PromptMessage]) -> Reply:
        """Return the model's reply; where it refuses the tools, ask again without any for the rest of the turn."""
        try:
            return await self.call_model(messages, self._functions)
        except LLMToolsRefusedError as error:
            if not self._functions:
                raise
            logger.warning("The model refused the tools of a question: %s", error)
            self.turn.trace.step("tools", "refused", detail=str(error))
        self._functions = ()
        return await self.call_model(messages, self._functions)

    def messages(self, thread: Thread) -> list[PromptMessage]:
        """The prompt: earlier exchanges, the question once, then this turn's rounds, the last one whole."""
        check_isolation(thread.messages, self.conversation_id)
        start = next((n for n, message in enumerate(thread.messages) if message.turn_id == self.turn_id), 0)
        own = [
            message
            for message in thread.messages[start:]
            if not (message.role == Role.USER and message.turn_id == self.turn_id)
        ]
        own = pruned(own, self.config.context_messages - 1)
        earlier, summary = thread.messages[:start], self.summary
        if summary is not None:
            self.answer.had_tool_results |= any(each.role == Role.TOOL for each in earlier)
            earlier = after_turn(earlier, summary.turn_id)
        told = [] if summary is None else summary.as_prompt()
        history = fitting_history(
            earlier,
            exchanges=self.config.context_exchanges,
            limit=self.config.context_messages - 1 - len(own) - len(told),
        )
        rounds = [message.as_prompt() for message in own]
        if self.room is not None:
            rounds = [_shortened(message, self.room // max(2, len(own))) for message in rounds]
            left = self.room - sum(len(message.content) for message in rounds)
            while history and sum(len(message.told) for message in history) > left:
                history = fitting_history(history, exchanges=self.config.context_exchanges, limit=len(history) - 1)
        self.answer.had_history |= bool(history or self.given or told)
        self.answer.had_tool_results |= any(message.role == Role.TOOL for message in history)
        return [self.system, *self.given, *told, *(message.as_prompt() for message in history), self.question, *rounds]

    async def _plan(self, state: LoopState, content: str, calls: Sequence[RequestedCall]) -> ToolRound:
        log_tool_calls(calls, turn_id=self.turn_id, round_index=state.rounds)
        self.answer.has_open_round = True
        return await in_database(
            plan_round,
            conversation_id=self.conversation_id,
            turn_id=self.turn_id,
            round_index=state.rounds,
            content=content,
            calls=calls_to_plan(calls, self.toolbox.specs),
            tool_names=[spec.name for spec in self.toolbox.specs],
        )

    async def _run_calls(self, planned: ToolRound) -> None:
        """Run the due calls in parallel; an error in storing one is raised after all have ended."""
        limit = asyncio.Semaphore(TOOL_PARALLEL_CALLS)

        async def run(call: ToolExecution) -> None:
            async with limit:
                await self._run_call(planned, call)

        ended = await asyncio.gather(*map(run, planned.executions.all()), return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _run_call(self, planned: ToolRound, execution: ToolExecution) -> None:
        call = execution.call
        # What was started and never ended may have taken effect.
        is_due = execution.state == ExecutionState.PLANNED
        if not is_due or not await in_database(start_call, planned.pk, call.id):
            await self.emit(Tool(call.id, call.name, _ended(execution), planned.round_index))
            return
        await self.emit(Tool(call.id, call.name, "running", planned.round_index))
        [result] = await execute_calls(
            [ToolCall(call.id, call.name, call.arguments)],
            tools=self.toolbox.specs,
            context=ToolContext(
                deployment_id=self.config.deployment.pk,
                agent_id=self.config.agent.pk,
                conversation_id=self.conversation_id,
                turn_id=self.turn_id,
                user_id=self.toolbox.user_id,
                language=self.turn.request.language,
                operation_id=str(planned.operation_id),
            ),
            approved={call.id} if execution.approval == Approval.APPROVED else (),
        )
        await in_database(finish_call, planned.pk, result)
        status: ToolStatus = "done" if result.success else "failed"
        await self.emit(Tool(call.id, call.name, status, planned.round_index, duration_ms=result.duration_ms))

    # Into the thread

    async def _persist(self, planned: ToolRound, version: int) -> None:
        """One batch; where somebody wrote meanwhile, reload and replay it, a bounded number of times."""
        for attempt in range(BATCH_TRIES + 1):
            try:
                result = await in_database(
                    apply_round, planned.pk, expected_version=version, max_tool_calls=self.config.max_tool_calls
                )
            except ThreadConflictError:
                self._log(planned, "conflict", applied=None)
                if attempt == BATCH_TRIES:
                    raise
                await asyncio.sleep(BATCH_RETRY_SECONDS * 2**attempt)
                version = (await self._load()).thread.version
            else:
                self._log(planned, "applied" if result.applied else "replayed", result.applied)
                return

    def _log(self, planned: ToolRound, event: str, applied: bool | None) -> None:
        log_batch(
            event,
            turn_id=self.turn_id,
            operation_id=planned.operation_id,
            round_index=planned.round_index,
            applied=applied,
        )


def _shortened(message: PromptMessage, most: int) -> PromptMessage:
    """The beginning of a tool's result that is longer than the model's window has room for."""
    if message.role != "tool" or len(message.content) <= most:
        return message
    return replace(message, content=json.dumps({"beginning": message.content[:most]}, ensure_ascii=False))


def awaiting(call: RequestedCall, *, round_index: int) -> Tool:
    """The event that asks a person to approve a call, with its arguments."""
    return Tool(call.id, call.name, "awaiting", round_index, arguments=call.arguments)


def _ended(execution: ToolExecution) -> ToolStatus:
    """The status shown for a call that is not run now; its outcome may be unknown."""
    if execution.approval == Approval.DENIED:
        return "denied"
    return "done" if execution.state == ExecutionState.FINISHED and execution.success else "failed"


def calls_to_plan(
    calls: Sequence[RequestedCall], specs: Sequence[ToolSpec]
) -> list[tuple[RequestedCall, ToolExecution]]:
    """Each call, and how it begins. Where one has invalid JSON none is run, since the reply cannot be trusted."""
    asking = {spec.name for spec in specs if spec.needs_approval}
    broken = {call.id for call in calls if _arguments(call) is None}
    planned = []
    for call in calls:
        execution = ToolExecution(tool_call_id=call.id, name=call.name)
        if call.id in broken:
            text = "The arguments are not a JSON object: no tool of this reply was run."
            execution.fail("invalid_tool_arguments", failure_content("invalid_tool_arguments", text))
        elif broken:
            text = "Not run: the arguments of another call of this reply are not a JSON object."
            execution.fail("not_run", failure_content("not_run", text))
        elif call.name in asking:
            execution.approval = Approval.PENDING
        planned.append((RequestedCall(call.id, call.name, _arguments(call) or "{}"), execution))
    return planned


def _arguments(call: RequestedCall) -> str | None:
    """The arguments as JSON that every model API accepts (`{}` for none, or null); `None` where they are invalid."""
    text = "{}" if call.arguments.strip() in ("", "null") else call.arguments.strip()
    return None if parsed_object(text) is None else text


def is_saturated(rounds: Sequence[Sequence[Message]], asked: Sequence[RequestedCall]) -> bool:
    """Whether the model asks for the same calls a `SATURATION`th time, `asked` counted, or got the same results so often."""
    last = rounds[-SATURATION:]
    if len(last) < SATURATION:
        return False
    calls = [_calls_signature(block[0].calls) for block in last]
    results = [sorted(message.content for message in block[1:]) for block in last]
    same_calls = all(signature == calls[0] for signature in [*calls, _calls_signature(asked)])
    return same_calls or all(result == results[0] for result in results)


def _calls_signature(calls: Sequence[RequestedCall]) -> list[tuple[str, str]]:
    return sorted((call.name, json.dumps(parsed_object(call.arguments), sort_keys=True)) for call in calls)


def efficiency(*, rounds: int, results: int, max_rounds: int) -> float:
    """How sparingly a turn used its tools, in per cent: see `docs/adr/0003-efficiency-figure.md`."""
    if rounds == 0:
        return 100.0
    left = (max_rounds - rounds) / max_rounds * 100
    return round((max(0.0, left) + min(100.0, results / rounds * 100)) / 2, 2)
