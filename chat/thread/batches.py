"""Rounds of tools in the thread: appended whole or not at all, and repaired where a crash left one open.

`append_batch` is idempotent on the operation. It makes its conversation's next version, and takes that row first: the
messages of one batch stand together.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models import Exists, F, OuterRef
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import PreparedSelect, parameter, short_write
from chat.exceptions import InvalidToolMessageError, ThreadConflictError
from chat.logs import log_batch
from chat.models import OPEN_STATUSES, AppliedOperation, Conversation, ExecutionState, Message, Role, ToolRound
from chat.thread.blocks import ThreadMessage, calls_from_json, check_batch, repaired, unanswered
from chat.thread.branches import branch_turns
from chat.thread.gone import hold_conversation
from chat.thread.messages import newest_messages


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation's last messages, acceptable to a strict model API, and the version they were read at."""

    conversation_id: uuid.UUID
    messages: tuple[ThreadMessage, ...]
    version: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One round of tools: the request, then its tool messages in the order of the calls."""

    conversation_id: uuid.UUID
    messages: Sequence[ThreadMessage]
    operation_id: uuid.UUID
    round_index: int
    turn_id: uuid.UUID | None = None
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """`applied` is false for a replay; `messages` are the stored ones of the operation either way."""

    applied: bool
    messages: tuple[Message, ...]
    version: int


def append_batch(batch: Batch, *, max_tool_calls: int, expected_version: int | None = None) -> BatchResult:
    """Store one round of tools, whole or not at all.

    Raises `InvalidToolMessageError`, or `ThreadConflictError` where the thread is no longer at `expected_version`
    (`None`: whatever it is). An operation that is in the thread already is not applied again.
    """
    check_batch(batch.messages, max_tool_calls=max_tool_calls)
    with short_write():
        conversation = hold_conversation(batch.conversation_id)
        if (replay := _replay(conversation, batch)) is not None:
            return replay
        if batch.messages[0].role is Role.TOOL:
            _require_open_calls(conversation, batch.messages, limit=max_tool_calls + 1)
        version = _next_version(conversation, expected_version)
        AppliedOperation.objects.create(
            conversation=conversation,
            operation_id=batch.operation_id,
            idempotency_key=batch.idempotency_key,
            round_index=batch.round_index,
            version=version,
        )
        rows = [_row(message, batch, conversation) for message in batch.messages]
        stored = Message.objects.bulk_create(rows)
    return BatchResult(applied=True, messages=tuple(stored), version=version)


def _replay(conversation: Conversation, batch: Batch) -> BatchResult | None:
    """The stored messages of an operation that was applied before."""
    applied = AppliedOperation.objects.filter(conversation=conversation)
    if applied.filter(operation_id=batch.operation_id).exists():
        messages = Message.objects.for_conversation(conversation.pk)
        stored = messages.filter(operation_id=batch.operation_id)
        return BatchResult(applied=False, messages=tuple(stored), version=conversation.version)
    if batch.idempotency_key and applied.filter(idempotency_key=batch.idempotency_key).exists():
        raise InvalidToolMessageError(
            "idempotency key reused", public_message=_("« Idempotency-Key » a déjà servi à une autre opération.")
        )
    return None


def _require_open_calls(conversation: Conversation, messages: Sequence[ThreadMessage], *, limit: int) -> None:
    """Tool messages without their request are for the calls that the end of the thread left open."""
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


def _row(message: ThreadMessage, batch: Batch, conversation: Conversation) -> Message:
    return Message(
        conversation=conversation,
        turn_id=batch.turn_id,
        after=conversation.leaf if batch.turn_id is None else None,
        role=message.role,
        content=message.content,
        tool_calls=[call.as_json() for call in message.tool_calls],
        tool_call_id=message.tool_call_id,
        name=message.name,
        operation_id=batch.operation_id,
        relance_index=batch.round_index,
        success=message.success,
        error=message.error,
        duration_ms=message.duration_ms,
        timestamp=message.timestamp,
    )


def round_batch(planned: ToolRound) -> Batch:
    """A planned round as its batch; a call that did not end is said to be interrupted."""
    request = ThreadMessage(
        conversation_id=planned.conversation_id,
        role=Role.ASSISTANT,
        content=planned.content,
        tool_calls=calls_from_json(planned.tool_calls),
        timestamp=planned.created_at,
        turn_id=planned.turn_id,
    )
    ended = {execution.tool_call_id: execution for execution in planned.executions.all()}
    messages = [request]
    for call in request.tool_calls:
        execution = ended.get(call.id)
        if execution is None or execution.state != ExecutionState.FINISHED:
            messages.append(unanswered(request, call))
            continue
        messages.append(
            replace(
                request,
                role=Role.TOOL,
                content=execution.content,
                tool_calls=(),
                tool_call_id=call.id,
                name=call.name,
                success=execution.success,
                error=execution.error,
                duration_ms=execution.duration_ms,
                timestamp=execution.finished_at,
            )
        )
    return Batch(
        planned.conversation_id,
        messages,
        operation_id=planned.operation_id,
        round_index=planned.round_index,
        turn_id=planned.turn_id,
    )


def load_thread(*, conversation_id: uuid.UUID, limit: int, turn_id: uuid.UUID | None = None) -> Thread:
    """The last `limit` messages, whole blocks only; what a crash left open is closed and stored first.

    They are those of the turn's own branch, whichever is shown meanwhile; without a turn, of the current one.
    """
    apply_abandoned_rounds(conversation_id)
    version, leaf = Conversation.objects.values_list("version", "leaf").get(pk=conversation_id)
    turns = None if leaf is None else branch_turns(conversation_id, turn_id or leaf)
    messages = newest_messages(conversation_id, turns, limit)
    if open_calls := _open_calls(messages):
        version = _close_calls(conversation_id, open_calls, after=messages[-1])
        messages += open_calls
    return Thread(conversation_id, tuple(repaired(messages)), version)


def _open_calls(messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    """The missing tool messages of the last block, as failures."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id)
            continue
        return [unanswered(message, call) for call in message.tool_calls if call.id not in answered]
    return []


def _close_calls(conversation_id: uuid.UUID, failures: Sequence[ThreadMessage], *, after: ThreadMessage) -> int:
    """Store failures for the calls that the end of the thread leaves open; once, whoever loads it at the same time."""
    repair = Batch(
        conversation_id,
        failures,
        operation_id=uuid.uuid5(conversation_id, f"repair:{after.id}"),
        round_index=0,
        turn_id=after.turn_id,
    )
    return append_batch(repair, max_tool_calls=len(failures)).version


#: Of most conversations there is none.
_ANY_ROUND = PreparedSelect(
    lambda: ToolRound.objects.filter(conversation=parameter(ToolRound, "conversation")).order_by().values_list("pk")[:1]
)


def has_rounds(conversation_id: uuid.UUID) -> bool:
    return bool(_ANY_ROUND.rows(conversation=conversation_id))


def apply_abandoned_rounds(conversation_id: uuid.UUID) -> None:
    """Bring rounds of turns that ended into the thread: the results they had stay known, the rest is interrupted."""
    if not has_rounds(conversation_id):
        return
    applied = AppliedOperation.objects.filter(
        conversation=OuterRef("conversation"), operation_id=OuterRef("operation_id")
    )
    abandoned = (
        ToolRound.objects.filter(~Exists(applied), conversation=conversation_id)
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
