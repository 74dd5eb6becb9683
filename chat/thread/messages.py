"""The only reader and writer of a thread's turns and messages. Synchronous; each verb is one short transaction.

A question is stored when its turn is claimed, before anything is looked up, so nothing typed is lost; the answer is
stored once, at the end. `claim_turn` is idempotent on the client's message id, `append_batch` on the operation. Every
write to a thread makes its conversation's next version, and takes that row first: messages of one batch stand together.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Exists, F, OuterRef
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.llm.base import PromptMessage
from agents.transactions import short_write
from chat.exceptions import (
    ConversationNotFoundError,
    InvalidToolMessageError,
    IsolationError,
    ThreadConflictError,
    TurnNotLastError,
    TurnRunningError,
    TurnTakenOverError,
)
from chat.logs import log_batch, log_isolation
from chat.models import (
    AppliedOperation,
    Conversation,
    ExecutionState,
    Feedback,
    Message,
    Role,
    ToolRound,
    Turn,
    TurnStatus,
)
from chat.runs.event_log.memory import event_logs
from chat.thread import statements
from chat.thread.blocks import ThreadMessage, calls_from_json, check_batch, repaired, unanswered
from chat.thread.branches import branch_turns, in_turn_order, parent_beside

#: A turn that still may write its rounds itself.
OPEN_STATUSES = (TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL)
#: A title is the first characters of the first question (seed 004, section 5).
TITLE_CHARACTERS = 50


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """`is_new` is false when this client message already has its turn: follow it, do not answer twice. `is_first`:
    nothing was written to the conversation before, and nobody has named it."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    title: str
    is_new: bool
    is_first: bool
    run: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run of a turn ends: its answer, the columns of its row, and whether it leaves a planned round behind."""

    turn_id: uuid.UUID
    conversation_id: uuid.UUID
    run: int
    status: TurnStatus
    text: str
    sources: Sequence[dict[str, Any]]
    #: `statements.ENDING`, but for the status and the time.
    columns: Mapping[str, object]
    has_open_round: bool = False


class Owned(Protocol):
    """Anything that was said: it belongs to one conversation, or to none."""

    @property
    def conversation_id(self) -> uuid.UUID | None: ...


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation's last messages, acceptable to a strict model API, and the version they were read at."""

    conversation_id: uuid.UUID
    messages: tuple[ThreadMessage, ...]
    version: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """`applied` is false for a replay; `messages` are the stored ones of the operation either way."""

    applied: bool
    messages: tuple[Message, ...]
    version: int


def claim_turn(
    *,
    conversation_id: uuid.UUID,
    client_message_id: str,
    question: str,
    lease_seconds: float | None = None,
    replaces: uuid.UUID | None = None,
) -> ClaimedTurn:
    """Store the question under a turn of its own; raises `TurnRunningError` while another one runs.

    It continues the current branch, or is another version of the turn that it `replaces`: an edited question, or the
    same one asked again. Raises `TurnNotFoundError` where that turn is not of this conversation. The lease is
    `TURN_LEASE_SECONDS` unless said otherwise; who claims must renew it (`renew_turns`) or end the turn.
    """
    lease = timedelta(seconds=lease_seconds or settings.TURN_LEASE_SECONDS)
    for _try in range(2):
        try:
            with short_write():
                return _claim(conversation_id, client_message_id, question, lease, replaces)
        except IntegrityError:
            claimed = _existing(conversation_id, client_message_id)
            if claimed is not None:
                return claimed
            if not interrupt_stale_turns(conversation_id) + _drop_paused_turn(conversation_id):
                break
    raise TurnRunningError(f"Conversation {conversation_id} has a running turn.")


def _existing(conversation_id: uuid.UUID, client_message_id: str) -> ClaimedTurn | None:
    turn = (
        Turn.objects.filter(conversation=conversation_id, client_message_id=client_message_id)
        .select_related("conversation")
        .first()
    )
    if turn is None:
        return None
    return ClaimedTurn(
        turn_id=turn.pk,
        conversation_id=conversation_id,
        title=turn.conversation.title,
        is_new=False,
        is_first=False,
    )


def _claim(
    conversation_id: uuid.UUID,
    client_message_id: str,
    question: str,
    lease: timedelta,
    replaces: uuid.UUID | None,
) -> ClaimedTurn:
    found = statements.HEAD.rows(conversation_id=conversation_id)
    if not found:
        raise ConversationNotFoundError(f"Conversation {conversation_id} is gone.")
    ((named, version, leaf),) = found
    parent = leaf if replaces is None else parent_beside(conversation_id, leaf, replaces)
    now = timezone.now()
    turn = Turn.objects.create(
        conversation_id=conversation_id,
        parent_id=parent,
        client_message_id=client_message_id,
        lease_expires_at=now + lease,
    )
    is_first, title = not named and version == 0, named or default_title(question)
    if leaf is None and replaces is None:
        written = statements.NAME_LINE.run(conversation_id=conversation_id, title=title, now=now)
    else:
        written = Conversation.objects.filter(pk=conversation_id, leaf=leaf).update(
            title=title, version=F("version") + 1, updated_at=now, leaf=turn.pk
        )
    if not written:
        raise IntegrityError(f"The branch of {conversation_id} changed meanwhile.")
    Message.objects.create(
        conversation_id=conversation_id, turn=turn, role=Role.USER, content=question
    )
    return ClaimedTurn(
        turn_id=turn.pk,
        conversation_id=conversation_id,
        title=title,
        is_new=True,
        is_first=is_first,
    )


def default_title(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1].rstrip()}…"


def renew_turns(turn_ids: Sequence[uuid.UUID]) -> None:
    """Extend the leases of the turns that this process runs."""
    expires = timezone.now() + timedelta(seconds=settings.TURN_LEASE_SECONDS)
    running = Turn.objects.filter(pk__in=turn_ids, status=TurnStatus.RUNNING)
    running.update(lease_expires_at=expires)


def interrupt_stale_turns(conversation_id: uuid.UUID | None = None) -> int:
    """Mark turns of a dead process, whose lease ran out, as interrupted; everywhere, or in one conversation.

    The text that such a turn had told is kept where its log is (`EventLogs.partial_answer`), and what it had found out
    is brought into its thread, before anything else is said there.
    """
    stale = Turn.objects.filter(status=TurnStatus.RUNNING, lease_expires_at__lt=timezone.now())
    if conversation_id is not None:
        stale = stale.filter(conversation=conversation_id)
    count = sum(_interrupt(*found) for found in stale.values_list("pk", "conversation", "run"))
    if count:
        _apply_abandoned_rounds(conversation_id)
    return count


def _interrupt(turn_id: uuid.UUID, conversation_id: uuid.UUID, run: int) -> bool:
    """Interrupt one turn, unless its process came back meanwhile."""
    partial = event_logs().partial_answer(turn_id, run=run)
    now = timezone.now()
    stale = Turn.objects.filter(
        pk=turn_id, run=run, status=TurnStatus.RUNNING, lease_expires_at__lt=now
    )
    with short_write():
        if not stale.update(status=TurnStatus.INTERRUPTED, finished_at=now):
            return False
        if partial is not None and partial.text:
            Conversation.objects.filter(pk=conversation_id).update(version=F("version") + 1)
            Message.objects.create(
                conversation_id=conversation_id,
                turn_id=turn_id,
                role=Role.ASSISTANT,
                content=partial.text,
                sources=list(partial.sources),
            )
    return True


def reopen_turn(turn_id: uuid.UUID) -> bool:
    """Make an interrupted or failed turn run again; `False` where it runs, waits or is answered: follow it then.

    Its partial answer goes: there is one answer to a question. What its tools found out stays, and none runs twice.
    Raises `TurnNotLastError` where the conversation has gone on, `TurnRunningError` while another turn of it runs.
    """
    turn = Turn.objects.get(pk=turn_id)
    interrupt_stale_turns(turn.conversation_id)
    ended = Turn.objects.filter(pk=turn_id, status__in=(TurnStatus.INTERRUPTED, TurnStatus.FAILED))
    try:
        with short_write():
            reopened = ended.update(
                status=TurnStatus.RUNNING,
                run=F("run") + 1,
                lease_expires_at=timezone.now() + timedelta(seconds=settings.TURN_LEASE_SECONDS),
                stop_requested_at=None,
                finished_at=None,
                error_code="",
            )
            if not reopened:
                return False
            if not _is_last(turn):
                raise TurnNotLastError(f"{turn_id} is not the last turn of its conversation.")
            _drop_answer(turn.conversation_id, turn_id)
    except IntegrityError as error:
        raise TurnRunningError(f"{turn.conversation_id} has a running turn.") from error
    return True


def _is_last(turn: Turn) -> bool:
    """Whether nothing was asked after it, on the branch that is shown; another one is not shown meanwhile."""
    held = Conversation.objects.select_for_update().values_list("leaf", flat=True)
    leaf = held.get(pk=turn.conversation_id)
    if leaf is not None:
        return leaf == turn.pk
    later = Turn.objects.filter(conversation=turn.conversation_id, started_at__gt=turn.started_at)
    return not later.exists()


def _drop_answer(conversation_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """There is one answer to a question: the text that was kept of an interrupted run makes room for it.

    What its reader said of it was not said of the new one.
    """
    Feedback.objects.filter(turn=turn_id).delete()
    messages = Message.objects.for_conversation(conversation_id).exchanges()
    messages.filter(turn=turn_id, role=Role.ASSISTANT).delete()


def request_stop(conversation_id: uuid.UUID) -> bool:
    """Ask whichever process runs the conversation's turn to stop it; `False` where none runs."""
    interrupt_stale_turns(conversation_id)
    running = Turn.objects.filter(conversation=conversation_id, status=TurnStatus.RUNNING)
    with short_write():
        return bool(running.update(stop_requested_at=timezone.now()))


def wanted_turns(turn_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Those of these turns that their owner has neither stopped nor deleted, with the run that they are at."""
    wanted = Turn.objects.filter(pk__in=turn_ids, stop_requested_at=None)
    return dict(wanted.values_list("pk", "run"))


def running_turns(turn_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Those of these turns that a living process runs, with the run that it is."""
    running = Turn.objects.filter(
        pk__in=turn_ids, status=TurnStatus.RUNNING, lease_expires_at__gt=timezone.now()
    )
    return dict(running.values_list("pk", "run"))


def _drop_paused_turn(conversation_id: uuid.UUID) -> int:
    """Asking something else is an answer to a tool that waits for approval: no."""
    paused = Turn.objects.filter(conversation=conversation_id, status=TurnStatus.AWAITING_APPROVAL)
    count = paused.update(status=TurnStatus.INTERRUPTED, finished_at=timezone.now())
    if count:
        _apply_abandoned_rounds(conversation_id)
    return count


def is_unnamed(conversation_id: uuid.UUID, question: str) -> bool:
    """Whether a conversation that is kept has no name yet but the start of this question."""
    return Conversation.objects.filter(
        pk=conversation_id, is_temporary=False, title=default_title(question)
    ).exists()


def rename_conversation(
    *, conversation_id: uuid.UUID, turn_id: uuid.UUID, title: str, question: str
) -> None:
    """Give a conversation the title that a model call wrote, unless a person has named it meanwhile."""
    named = Conversation.objects.filter(pk=conversation_id, title=default_title(question))
    named.update(title=title)
    Turn.objects.filter(pk=turn_id).update(llm_calls=F("llm_calls") + 1)


def previous_question(*, conversation_id: uuid.UUID, turn_id: uuid.UUID | None) -> str:
    """The question before this turn's on the branch, however it ended: a follow-up leans on it, answered or not."""
    questions = Message.objects.for_conversation(conversation_id).filter(role=Role.USER)
    if turn_id is not None:
        questions = questions.exclude(turn=turn_id)
    newest = questions.order_by("-id")
    text, leaf = newest.values_list("content", "conversation__leaf").first() or ("", None)
    if leaf is None:
        return text
    on_branch = newest.on_branch(branch_turns(conversation_id, leaf))
    return on_branch.values_list("content", flat=True).first() or ""


def finished_exchanges(conversation_id: uuid.UUID, *, limit: int) -> list[tuple[Message, Message]]:
    """The last `limit` questions of the current branch that are answered, each with its answer, oldest first.

    The one being answered is not finished.
    """
    messages = Message.objects.for_conversation(conversation_id).exchanges()
    finished = messages.filter(turn__status=TurnStatus.DONE).order_by("-id")
    # The branch comes along with the messages: one line costs no second look.
    marked: list[Any] = list(finished.annotate(leaf=F("conversation__leaf"))[: 2 * limit])
    newest: list[Message] = [*marked]
    if marked and marked[0].leaf is not None:
        turns = branch_turns(conversation_id, marked[0].leaf)
        newest = list(finished.on_branch(turns)[: 2 * limit])
    by_turn: dict[uuid.UUID | None, dict[str, Message]] = {}
    for message in reversed(newest):
        by_turn.setdefault(message.turn_id, {})[message.role] = message
    return [(pair[Role.USER], pair[Role.ASSISTANT]) for pair in by_turn.values() if len(pair) == 2]


def check_isolation(messages: Sequence[Owned], conversation_id: uuid.UUID | None) -> None:
    """Raise before a model is called with anything of another conversation; system text belongs to none."""
    foreign = [
        message.conversation_id
        for message in messages
        if message.conversation_id != conversation_id
        and not (isinstance(message, PromptMessage) and message.role == "system")
    ]
    if foreign:
        log_isolation(conversation_id, foreign)
        raise IsolationError(
            f"{len(foreign)} messages of other conversations were loaded for {conversation_id}."
        )


def load_thread(
    *, conversation_id: uuid.UUID, limit: int, turn_id: uuid.UUID | None = None
) -> Thread:
    """The last `limit` messages, whole blocks only; what a crash left open is closed and stored first.

    They are those of the turn's own branch, whichever is shown meanwhile; without a turn, of the current one.
    """
    _apply_abandoned_rounds(conversation_id)
    version, leaf = Conversation.objects.values_list("version", "leaf").get(pk=conversation_id)
    turns = None if leaf is None else branch_turns(conversation_id, turn_id or leaf)
    messages = _newest(conversation_id, turns, limit)
    if open_calls := _open_calls(messages):
        version = _close_calls(conversation_id, open_calls, after=messages[-1])
        messages += open_calls
    return Thread(conversation_id, tuple(repaired(messages)), version)


def _newest(
    conversation_id: uuid.UUID, turns: Collection[uuid.UUID] | None, limit: int
) -> list[ThreadMessage]:
    """The last messages of a branch, oldest first."""
    newest = Message.objects.for_conversation(conversation_id).on_branch(turns).order_by("-id")
    return [ThreadMessage.of(message) for message in in_turn_order(reversed(newest[:limit]))]


def append_batch(
    conversation_id: uuid.UUID,
    messages: Sequence[ThreadMessage],
    *,
    operation_id: uuid.UUID,
    round_index: int,
    expected_version: int | None,
    max_tool_calls: int,
    turn_id: uuid.UUID | None = None,
    idempotency_key: str = "",
) -> BatchResult:
    """Store one round of tools, whole or not at all: the request, then its tool messages in the order of the calls.

    Raises `InvalidToolMessageError`, or `ThreadConflictError` where the thread is no longer at `expected_version`
    (`None`: whatever it is). An operation that is in the thread already is not applied again.
    """
    check_batch(messages, max_tool_calls=max_tool_calls)
    with short_write():
        conversation = _locked(conversation_id)
        if (replay := _replay(conversation, operation_id, idempotency_key)) is not None:
            return replay
        if messages[0].role is Role.TOOL:
            _require_open_calls(conversation, messages, limit=max_tool_calls + 1)
        version = _next_version(conversation, expected_version)
        AppliedOperation.objects.create(
            conversation_id=conversation_id,
            operation_id=operation_id,
            idempotency_key=idempotency_key,
            round_index=round_index,
            version=version,
        )
        stored = Message.objects.bulk_create(
            _row(message, conversation, operation_id, round_index, turn_id) for message in messages
        )
    return BatchResult(applied=True, messages=tuple(stored), version=version)


def _locked(conversation_id: uuid.UUID) -> Conversation:
    found = Conversation.objects.select_for_update().filter(pk=conversation_id).first()
    if found is None:
        raise ConversationNotFoundError(f"There is no conversation {conversation_id}.")
    return found


def _replay(
    conversation: Conversation, operation_id: uuid.UUID, idempotency_key: str
) -> BatchResult | None:
    """The stored messages of an operation that was applied before."""
    applied = AppliedOperation.objects.filter(conversation=conversation)
    if applied.filter(operation_id=operation_id).exists():
        stored = Message.objects.for_conversation(conversation.pk).filter(operation_id=operation_id)
        return BatchResult(applied=False, messages=tuple(stored), version=conversation.version)
    if idempotency_key and applied.filter(idempotency_key=idempotency_key).exists():
        raise InvalidToolMessageError(
            "idempotency key reused",
            public_message=_("« Idempotency-Key » a déjà servi à une autre opération."),
        )
    return None


def _require_open_calls(
    conversation: Conversation, messages: Sequence[ThreadMessage], *, limit: int
) -> None:
    """Tool messages without their request are for the calls that the end of the thread left open."""
    turns = branch_turns(conversation.pk, conversation.leaf)
    open_calls = _open_calls(_newest(conversation.pk, turns, limit))
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
            f"{conversation.pk} is at {conversation.version}, not {expected_version}.",
            version=conversation.version,
        )
    return conversation.version + 1


def _row(
    message: ThreadMessage,
    conversation: Conversation,
    operation_id: uuid.UUID,
    round_index: int,
    turn_id: uuid.UUID | None,
) -> Message:
    return Message(
        conversation_id=conversation.pk,
        turn_id=turn_id,
        after=conversation.leaf if turn_id is None else None,
        role=message.role,
        content=message.content,
        tool_calls=[call.as_json() for call in message.tool_calls],
        tool_call_id=message.tool_call_id,
        name=message.name,
        operation_id=operation_id,
        relance_index=round_index,
        success=message.success,
        error=message.error,
        duration_ms=message.duration_ms,
        timestamp=message.timestamp,
    )


def round_messages(planned: ToolRound) -> list[ThreadMessage]:
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
    return messages


def _apply_abandoned_rounds(conversation_id: uuid.UUID | None) -> None:
    """Bring rounds of turns that ended into their threads: the results they had stay known, the rest is interrupted."""
    applied = AppliedOperation.objects.filter(
        conversation=OuterRef("conversation"), operation_id=OuterRef("operation_id")
    )
    abandoned = (
        ToolRound.objects.filter(~Exists(applied))
        .exclude(turn__status__in=OPEN_STATUSES)
        .prefetch_related("executions")
    )
    if conversation_id is not None:
        abandoned = abandoned.filter(conversation=conversation_id)
    for planned in abandoned:
        result = append_batch(
            planned.conversation_id,
            round_messages(planned),
            operation_id=planned.operation_id,
            round_index=planned.round_index,
            expected_version=None,
            max_tool_calls=len(planned.tool_calls),
            turn_id=planned.turn_id,
        )
        log_batch(
            "repaired",
            turn_id=planned.turn_id,
            operation_id=planned.operation_id,
            round_index=planned.round_index,
            applied=result.applied,
        )


def _open_calls(messages: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    """The missing tool messages of the last block, as failures."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role is Role.TOOL:
            answered.add(message.tool_call_id)
            continue
        return [unanswered(message, call) for call in message.tool_calls if call.id not in answered]
    return []


def _close_calls(
    conversation_id: uuid.UUID, failures: Sequence[ThreadMessage], *, after: ThreadMessage
) -> int:
    """Store failures for the calls that the end of the thread leaves open; once, whoever loads it at the same time."""
    return append_batch(
        conversation_id,
        failures,
        operation_id=uuid.uuid5(conversation_id, f"repair:{after.id}"),
        round_index=0,
        expected_version=None,
        max_tool_calls=len(failures),
        turn_id=after.turn_id,
    ).version


def save_exchange(ending: Ending) -> int | None:
    """End a run of a turn with its answer; returns the message's id, `None` where there is no text to keep.

    A run that was taken for dead (its lease ran out) and ends after all keeps its answer, in the place of what was kept
    of it. Raises `ConversationNotFoundError` where the turn was deleted meanwhile, `TurnTakenOverError` where it was run
    again.
    """
    is_pause = ending.status is TurnStatus.AWAITING_APPROVAL
    conversation_id, turn_id = ending.conversation_id, ending.turn_id
    run = {"turn_id": turn_id, "conversation_id": conversation_id, "run": ending.run}
    columns = {
        **ending.columns,
        "status": ending.status,
        "finished_at": None if is_pause else timezone.now(),
    }
    with short_write():
        if not statements.END_TURN.run(**run, **columns):
            if not statements.END_LATE_TURN.run(**run, **columns):
                raise _not_ours(turn_id)
            _drop_answer(conversation_id, turn_id)
        if ending.has_open_round and not is_pause:
            _apply_abandoned_rounds(conversation_id)
        statements.NEXT_VERSION.run(conversation_id=conversation_id, now=timezone.now())
        if is_pause or (not ending.text and ending.status is TurnStatus.FAILED):
            return None
        message = Message.objects.create(
            conversation_id=conversation_id,
            turn_id=turn_id,
            role=Role.ASSISTANT,
            content=ending.text,
            sources=list(ending.sources),
        )
        return message.pk


def _not_ours(turn_id: uuid.UUID) -> ConversationNotFoundError:
    if Turn.objects.filter(pk=turn_id).exists():
        return TurnTakenOverError(f"Turn {turn_id} was run again.")
    return ConversationNotFoundError(f"Turn {turn_id} is gone.")
