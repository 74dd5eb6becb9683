"""Rounds of tools: planned, run, and appended to the thread as one batch, whole or not at all.

A round is written down before its tools run, under an id derived from conversation, turn and round: whoever plays it
again works on the same rows. A call starts once; its result survives the turn. `append_batch` is idempotent.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError
from django.db.models import Exists, F, OuterRef, prefetch_related_objects
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.llm.base import RequestedCall
from chat.errors import ApprovalOverError, InvalidToolMessageError, ThreadConflictError
from chat.models import (
    OPEN_STATUSES,
    Approval,
    Conversation,
    ExecutionState,
    Message,
    Role,
    ToolExecution,
    ToolRound,
    Turn,
    TurnStatus,
)
from chat.telemetry import log_batch
from chat.thread.messages import (
    DENIED,
    branch_turns,
    check_batch,
    failure_content,
    hold_conversation,
    newest_messages,
    repaired,
    tool_message,
    unanswered,
)
from tools_registry.execution import ToolResult

#: How long after its process died a turn still counts as running; renewed three times in that time.
TURN_LEASE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation's last messages, acceptable to a strict model API, and the version they were read at."""

    conversation_id: uuid.UUID
    messages: tuple[Message, ...]
    version: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """`applied` is false for a replay; `messages` are the stored ones of the operation either way."""

    applied: bool
    messages: tuple[Message, ...]
    version: int


def append_batch(
    messages: Sequence[Message], *, max_tool_calls: int, expected_version: int | None = None
) -> BatchResult:
    """Store a round of tools whole, and once. Raises `InvalidToolMessageError`, or `ThreadConflictError` (version)."""
    check_batch(messages, max_tool_calls=max_tool_calls)
    first = messages[0]
    with short_write():
        conversation = hold_conversation(first.conversation_id)
        if (replay := _replay(conversation, first)) is not None:
            return replay
        if first.role == Role.TOOL:
            _require_open_calls(conversation, messages, limit=max_tool_calls + 1)
        version = _next_version(conversation, expected_version)
        for message in messages:
            message.after = None if message.turn_id else conversation.leaf
        stored = Message.objects.bulk_create(messages)
    return BatchResult(applied=True, messages=tuple(stored), version=version)


def _replay(conversation: Conversation, first: Message) -> BatchResult | None:
    """The stored messages of an operation that was applied before."""
    messages = Message.objects.for_conversation(conversation.pk)
    if stored := tuple(messages.filter(operation_id=first.operation_id)):
        return BatchResult(applied=False, messages=stored, version=conversation.version)
    if first.idempotency_key and messages.filter(idempotency_key=first.idempotency_key).exists():
        raise InvalidToolMessageError(
            "idempotency key reused", public_message=_("« Idempotency-Key » a déjà servi à une autre opération.")
        )
    return None


def _require_open_calls(conversation: Conversation, messages: Sequence[Message], *, limit: int) -> None:
    """Raise unless tool messages without their request answer exactly the open calls at the end of the thread."""
    turns = branch_turns(conversation.pk, conversation.leaf)
    open_calls = _open_calls(newest_messages(conversation.pk, turns, limit))
    asked = [(call.tool_call_id, call.name) for call in open_calls]
    if asked != [(message.tool_call_id, message.name) for message in messages]:
        raise InvalidToolMessageError(
            "tool messages without their calls",
            public_message=_(
                "Le fil n’attend pas ces résultats : joignez le message « assistant » avec ses « tool_calls »."
            ),
        )


def _next_version(conversation: Conversation, expected_version: int | None) -> int:
    """Bump the version, if it still is what the writer read."""
    same = Conversation.objects.filter(pk=conversation.pk)
    if expected_version is not None:
        same = same.filter(version=expected_version)
    if not same.update(version=F("version") + 1, updated_at=timezone.now()):
        raise ThreadConflictError(
            f"{conversation.pk} is at {conversation.version}, not {expected_version}.", version=conversation.version
        )
    return conversation.version + 1


def round_batch(planned: ToolRound) -> list[Message]:
    """A planned round as its batch; a call that did not end is said to be interrupted."""
    request = Message(
        conversation_id=planned.conversation_id,
        turn_id=planned.turn_id,
        operation_id=planned.operation_id,
        relance_index=planned.round_index,
        role=Role.ASSISTANT,
        content=planned.content,
        tool_calls=planned.tool_calls,
        timestamp=planned.created_at,
    )
    ended = {execution.tool_call_id: execution for execution in planned.executions.all()}
    messages = [request]
    for call in request.calls:
        execution = ended.get(call.id)
        if execution is None or execution.state != ExecutionState.FINISHED:
            messages.append(unanswered(request, call))
            continue
        message = tool_message(
            request,
            call,
            content=execution.content,
            success=execution.success,
            error=execution.error,
            duration_ms=execution.duration_ms,
            timestamp=execution.finished_at,
        )
        messages.append(message)
    return messages


def load_thread(*, conversation_id: uuid.UUID, limit: int, turn_id: uuid.UUID | None = None) -> Thread:
    """The last `limit` messages of the turn's branch (else the current one), whole blocks, what a crash left open closed."""
    apply_abandoned_rounds(conversation_id)
    version, leaf = Conversation.objects.values_list("version", "leaf").get(pk=conversation_id)
    turns = None if leaf is None else branch_turns(conversation_id, turn_id or leaf)
    messages = newest_messages(conversation_id, turns, limit)
    if open_calls := _open_calls(messages):
        version = _close_calls(open_calls, after=messages[-1])
        messages += open_calls
    return Thread(conversation_id, tuple(repaired(messages)), version)


def _open_calls(messages: Sequence[Message]) -> list[Message]:
    """The missing tool messages of the last block, as failures."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == Role.TOOL:
            answered.add(message.tool_call_id)
            continue
        return [unanswered(message, call) for call in message.calls if call.id not in answered]
    return []


def _close_calls(failures: Sequence[Message], *, after: Message) -> int:
    """Store failures for the calls that the end of the thread leaves open; once, whoever loads it at the same time."""
    operation_id = uuid.uuid5(after.conversation_id, f"repair:{after.id}")
    for failure in failures:
        failure.operation_id, failure.relance_index = operation_id, 0
    return append_batch(failures, max_tool_calls=len(failures)).version


def is_applied(conversation_id: uuid.UUID) -> Exists:
    """Of a round of this conversation: whether it is in the thread, with its request."""
    thread = Message.objects.for_conversation(conversation_id).filter(role=Role.ASSISTANT)
    return Exists(thread.filter(operation_id=OuterRef("operation_id")))


def apply_abandoned_rounds(conversation_id: uuid.UUID) -> None:
    """Bring rounds of turns that ended into the thread: the results they had stay known, the rest is interrupted."""
    abandoned = (
        ToolRound.objects.filter(~is_applied(conversation_id), conversation=conversation_id)
        .exclude(turn__status__in=OPEN_STATUSES)
        .prefetch_related("executions")
    )
    for planned in abandoned:
        result = append_batch(round_batch(planned), max_tool_calls=len(planned.tool_calls))
        log_batch(
            "repaired",
            turn_id=planned.turn_id,
            operation_id=planned.operation_id,
            round_index=planned.round_index,
            applied=result.applied,
        )


#: The namespace of derived operation ids; never to be changed.
_OPERATIONS = uuid.UUID("6f1b9c5e-2f0a-5d57-9b42-0f6b1f2f7a11")


def operation_id_of(conversation_id: uuid.UUID, turn_id: uuid.UUID, round_index: int) -> uuid.UUID:
    return uuid.uuid5(_OPERATIONS, f"{conversation_id}:{turn_id}:{round_index}")


@dataclass(frozen=True, slots=True)
class LoopState:
    """Where a turn's loop stands: the thread as stored, the rounds that are in it, and one that is not yet."""

    thread: Thread
    rounds: int
    results: int
    pending: ToolRound | None
    is_personal: bool


def load_loop(*, conversation_id: uuid.UUID, turn_id: uuid.UUID, limit: int) -> LoopState:
    """Read the thread from the database, repaired, and this turn's own rounds."""
    thread = load_thread(conversation_id=conversation_id, limit=limit, turn_id=turn_id)
    rounds = ToolRound.objects.filter(turn=turn_id).annotate(is_applied=is_applied(conversation_id))
    rows = list(rounds.prefetch_related("executions"))
    open_rows = [row for row in rows if not row.is_applied]
    return LoopState(
        thread=thread,
        rounds=len(rows) - len(open_rows),
        results=sum(len(row.tool_calls) for row in rows) - sum(len(r.tool_calls) for r in open_rows),
        pending=next(iter(open_rows), None),
        is_personal=any(e.is_personal for row in rows for e in row.executions.all()),
    )


def plan_round(
    *,
    conversation_id: uuid.UUID,
    turn_id: uuid.UUID,
    round_index: int,
    content: str,
    calls: Sequence[tuple[RequestedCall, ToolExecution]],
    tool_names: Sequence[str],
) -> ToolRound:
    """Write a round down, each call with its new execution, before its tools run; one that is planned stays as it is."""
    operation_id = operation_id_of(conversation_id, turn_id, round_index)
    try:
        with short_write():
            row = ToolRound.objects.create(
                conversation_id=conversation_id,
                turn_id=turn_id,
                operation_id=operation_id,
                round_index=round_index,
                content=content,
                tool_calls=[call.as_json() for call, _execution in calls],
                tool_names=list(tool_names),
            )
            for position, (_call, execution) in enumerate(calls):
                execution.round, execution.position = row, position
            ToolExecution.objects.bulk_create(execution for _call, execution in calls)
    except IntegrityError:
        row = ToolRound.objects.get(turn=turn_id, round_index=round_index)
    prefetch_related_objects([row], "executions")
    return row


def start_call(round_pk: int, call_id: str) -> bool:
    """Take a call to run it; false where anyone did before. A call that was taken is never taken again."""
    due = ToolExecution.objects.filter(round=round_pk, tool_call_id=call_id, state=ExecutionState.PLANNED).exclude(
        approval__in=[Approval.PENDING, Approval.DENIED]
    )
    with short_write():
        return bool(due.update(state=ExecutionState.STARTED, started_at=timezone.now()))


def finish_call(round_pk: int, result: ToolResult) -> None:
    """Store a result as soon as it is known."""
    running = ToolExecution.objects.filter(round=round_pk, tool_call_id=result.call_id, state=ExecutionState.STARTED)
    with short_write():
        running.update(
            state=ExecutionState.FINISHED,
            content=result.content,
            success=result.success,
            error=result.error or "",
            duration_ms=result.duration_ms,
            is_personal=result.is_personal,
            finished_at=timezone.now(),
        )


def apply_round(round_pk: int, *, expected_version: int | None, max_tool_calls: int) -> BatchResult:
    """Bring a planned round into the thread, as one batch."""
    row = ToolRound.objects.prefetch_related("executions").get(pk=round_pk)
    most = max(max_tool_calls, len(row.tool_calls))
    return append_batch(round_batch(row), max_tool_calls=most, expected_version=expected_version)


def recent_tools(conversation_id: uuid.UUID, *, limit: int) -> list[str]:
    """The tools that the current branch used last, the latest first."""
    used = Message.objects.for_conversation(conversation_id).filter(role=Role.TOOL).order_by("-id")
    found = list(used.values_list("name", "conversation__leaf")[:limit])
    names = [name for name, _leaf in found]
    if found and (leaf := found[0][1]) is not None:
        on_branch = used.on_branch(branch_turns(conversation_id, leaf))
        names = list(on_branch.values_list("name", flat=True)[:limit])
    return list(dict.fromkeys(names))


def offered_names(turn_id: uuid.UUID) -> list[str] | None:
    """The tools that this turn offers since its first round; none where it has had no round."""
    row = ToolRound.objects.filter(turn=turn_id).order_by("round_index").first()
    return None if row is None else list(row.tool_names)


#: Why a call was not approved, as the model is told.
BY_A_PERSON = "The person refused this call."
BY_NOBODY = "This tool runs only with a person's approval, and nobody can be asked here. Say so in the answer."


def pending_calls(turn_id: uuid.UUID) -> list[ToolExecution]:
    """The calls of a turn that wait for a person, in order."""
    pending = ToolExecution.objects.filter(round__turn=turn_id, approval=Approval.PENDING)
    return list(pending.select_related("round").order_by("round__round_index", "position"))


def decide_call(*, turn_id: uuid.UUID, tool_call_id: str, is_approved: bool, why_denied: str = BY_A_PERSON) -> bool:
    """Store a decision; true if it sets the turn running again. Raises `ApprovalOverError` where none is awaited."""
    decision: dict[str, object] = {"approval": Approval.APPROVED}
    if not is_approved:
        decision = {
            "approval": Approval.DENIED,
            "state": ExecutionState.FINISHED,
            "success": False,
            "error": DENIED,
            "content": failure_content(DENIED, f"{why_denied} Do not try again."),
            "finished_at": timezone.now(),
        }
    waiting = ToolExecution.objects.filter(
        round__turn=turn_id, round__turn__status=TurnStatus.AWAITING_APPROVAL, approval=Approval.PENDING
    )
    with short_write():
        for turn in Turn.objects.filter(pk=turn_id):
            hold_conversation(turn.conversation_id)
        if not waiting.filter(tool_call_id=tool_call_id).update(**decision):
            raise ApprovalOverError(f"{tool_call_id[:100]} of {turn_id} waits for nobody.")
        if waiting.exists():
            return False
        paused = Turn.objects.filter(pk=turn_id, status=TurnStatus.AWAITING_APPROVAL)
        lease = timezone.now() + timedelta(seconds=TURN_LEASE_SECONDS)
        return bool(paused.update(status=TurnStatus.RUNNING, run=F("run") + 1, lease_expires_at=lease))
