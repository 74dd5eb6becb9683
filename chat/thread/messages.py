"""A thread as it is read: the tree of its turns, the branch that is shown, and its messages as models take them, repaired,
pruned, and checked before a call.

An edited question, or one asked again, is a sibling of the turn it replaces. A *branch* is the line of turns to a
*leaf*; the conversation's own leaf says which is shown. One that never branched has no leaf and no parents. Turns are
ordered by their questions, not by clocks. Model APIs refuse a call without its tool message, a tool message without its
call, and whatever stands between them.
"""

import json
import re
import sqlite3
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.database import short_write
from agents.llm.base import PromptMessage, RequestedCall
from chat.errors import (
    ConversationNotFoundError,
    InvalidToolMessageError,
    IsolationError,
    TurnNotFoundError,
    TurnRunningError,
)
from chat.models import OPEN_STATUSES, Conversation, Feedback, Message, Role, ToolRound, Turn, TurnStatus
from chat.protocol import Tool, ToolStatus, refuse_constant
from chat.telemetry import log_isolation
from tools_registry.tool import MAX_CALL_ID

_ROWS = tuple(model.DoesNotExist for model in (Conversation, Turn, Message, Feedback, ToolRound))
#: PostgreSQL's `foreign_key_violation`.
_FOREIGN_KEY = "23503"


def gone_error(error: BaseException) -> ConversationNotFoundError | None:
    """The error as that of a conversation that is gone (databases do not say whose key failed); `None` for another."""
    if isinstance(error, IntegrityError):
        cause = error.__cause__
        is_gone = (
            cause.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
            if isinstance(cause, sqlite3.Error)
            else getattr(cause, "sqlstate", None) == _FOREIGN_KEY
        )
    else:
        is_gone = isinstance(error, _ROWS)
    return ConversationNotFoundError(" ".join(str(error).split())) if is_gone else None


def hold_conversation(conversation_id: uuid.UUID) -> Conversation:
    """Its row, held to the end of the transaction before any other of its rows; raises `ConversationNotFoundError`."""
    with still_there():
        return (
            Conversation.objects.select_for_update(no_key=True).only("title", "version", "leaf").get(pk=conversation_id)
        )


@contextmanager
def still_there() -> Iterator[None]:
    """Raises `ConversationNotFoundError` where the conversation was deleted meanwhile, and other errors as they are."""
    try:
        yield
    except (ObjectDoesNotExist, IntegrityError) as error:
        if (gone := gone_error(error)) is None:
            raise
        raise gone from error


#: Each turn's parent, in the order of the questions.
Parents = Mapping[uuid.UUID, uuid.UUID | None]

_BATCH = 200


#: The error of a call that a person refused.
DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Versions:
    """The turns that stand at the same place of the tree, the oldest first, and which of them is shown (from 1)."""

    position: int
    turn_ids: tuple[uuid.UUID, ...]


def branch_turns(conversation_id: uuid.UUID, leaf: uuid.UUID | None) -> list[uuid.UUID] | None:
    """The turns of a branch, the first one first; `None` for the one line of a conversation that never branched."""
    return None if leaf is None else line_to(load_parents(conversation_id), leaf)


def load_parents(conversation_id: uuid.UUID) -> dict[uuid.UUID, uuid.UUID | None]:
    questions = Message.objects.for_conversation(conversation_id).filter(role=Role.USER)
    return dict(questions.exclude(turn=None).values_list("turn_id", "turn__parent_id"))


def line_to(parents: Parents, leaf: uuid.UUID) -> list[uuid.UUID]:
    """From the first turn to `leaf`. A leaf that is gone gives the newest line: nothing is shown as lost."""
    at: uuid.UUID | None = leaf if leaf in parents else next(reversed(list(parents)), None)
    line: dict[uuid.UUID, None] = {}
    while at is not None and at not in line:
        line[at] = None
        at = parents.get(at)
    return list(reversed(line))


def newest_end(parents: Parents, turn_id: uuid.UUID) -> uuid.UUID:
    """The leaf that a version leads to: at each place the version that was made last."""
    newest = {parent: turn for turn, parent in parents.items() if parent is not None}
    seen = {turn_id}
    while (following := newest.get(turn_id)) is not None and following not in seen:
        seen.add(following)
        turn_id = following
    return turn_id


def versions_on(parents: Parents, line: Sequence[uuid.UUID]) -> dict[uuid.UUID, Versions]:
    """Those turns of a branch that have other versions."""
    places: dict[uuid.UUID | None, list[uuid.UUID]] = {}
    for turn, parent in parents.items():
        places.setdefault(parent, []).append(turn)
    found = {}
    for turn in line:
        siblings = places[parents[turn]]
        if len(siblings) > 1:
            found[turn] = Versions(siblings.index(turn) + 1, tuple(siblings))
    return found


def in_turn_order(messages: Iterable[Message]) -> list[Message]:
    """Messages, oldest first, each answer behind its question (a slow turn stores its answer after the next one)."""
    found = list(messages)
    asked = {message.turn_id: message.pk for message in found if message.role == Role.USER}

    def place(message: Message) -> tuple[int, int]:
        if message.turn_id is None:
            return message.pk, message.pk
        return asked.get(message.turn_id, 0), message.pk

    return sorted(found, key=place)


def earlier_versions(turn_id: uuid.UUID) -> list[uuid.UUID]:
    """The turns at the same place that asked the same before: a question asked again is no other question."""
    own = Message.objects.filter(turn=turn_id, role=Role.USER).select_related("turn__conversation")
    question = own.first()
    if question is None or question.turn is None or question.turn.conversation.leaf is None:
        return []
    earlier = Message.objects.for_conversation(question.conversation_id).filter(
        role=Role.USER,
        pk__lt=question.pk,
        content=question.content,
        turn__isnull=False,
        turn__parent=question.turn.parent_id,
    )
    return [turn for turn in earlier.values_list("turn_id", flat=True) if turn is not None]


def parent_beside(conversation_id: uuid.UUID, leaf: uuid.UUID | None, replaced: uuid.UUID) -> uuid.UUID | None:
    """The parent of a new version of `replaced`, in the transaction that stores it. Raises `TurnNotFoundError`."""
    parents = load_parents(conversation_id)
    if replaced not in parents:
        raise TurnNotFoundError(f"{conversation_id} has no turn {replaced} to be replaced.")
    if leaf is None:
        parents = _lay_out(conversation_id, list(parents))
    return parents[replaced]


def _lay_out(conversation_id: uuid.UUID, line: Sequence[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID | None]:
    """Give the turns of a line their parents, and the messages without a turn their place between them."""
    parents = dict(zip(line, [None, *line], strict=False))
    Turn.objects.bulk_update(
        [Turn(pk=turn, parent_id=parent) for turn, parent in parents.items()], ["parent"], batch_size=_BATCH
    )
    last: uuid.UUID | None = None
    strays: list[Message] = []
    rows = Message.objects.for_conversation(conversation_id).only("turn_id")
    for message in rows.iterator(chunk_size=_BATCH):
        if message.turn_id is not None:
            last = message.turn_id
        elif last is not None:
            strays.append(Message(pk=message.pk, after=last))
    Message.objects.bulk_update(strays, ["after"], batch_size=_BATCH)
    return parents


def show_version(conversation_id: uuid.UUID, turn_id: uuid.UUID) -> None:
    """Make the branch that holds this turn the current one. Raises `TurnRunningError` and `TurnNotFoundError`."""
    with short_write():
        conversation = hold_conversation(conversation_id)
        parents = load_parents(conversation_id)
        if turn_id not in parents:
            raise TurnNotFoundError(f"{conversation_id} has no turn {turn_id}.")
        if conversation.leaf is None or turn_id in line_to(parents, conversation.leaf):
            return
        if Turn.objects.filter(conversation=conversation_id, status__in=OPEN_STATUSES).exists():
            raise TurnRunningError(f"Conversation {conversation_id} has an open turn.")
        Conversation.objects.filter(pk=conversation_id).update(
            leaf=newest_end(parents, turn_id), version=F("version") + 1, updated_at=timezone.now()
        )


@dataclass(frozen=True, slots=True)
class ShownThread:
    """Questions and answers in their order; tools and versions by the turn that they belong to."""

    messages: list[Message]
    tools: dict[uuid.UUID, list[Tool]] = field(default_factory=dict)
    versions: dict[uuid.UUID, Versions] = field(default_factory=dict)


def read_branch(conversation: Conversation) -> ShownThread:
    """The current branch, whole. Three queries, and one more where the conversation has branches."""
    turns, versions = None, {}
    if conversation.leaf is not None:
        parents = load_parents(conversation.pk)
        turns = line_to(parents, conversation.leaf)
        versions = versions_on(parents, turns)
    stored = Message.objects.for_conversation(conversation.pk).on_branch(turns)
    messages = in_turn_order(stored.exchanges().select_related("turn__feedback"))
    tools: dict[uuid.UUID, list[Tool]] = {}
    of_turns = stored.filter(role=Role.TOOL).exclude(turn=None)
    for message in of_turns.defer("content"):
        if message.turn_id is not None:
            tools.setdefault(message.turn_id, []).append(_line(message))
    return ShownThread(messages, tools, versions)


def exchange_of(turn: Turn) -> tuple[Message | None, Message | None]:
    """The question and the answer of a turn, as far as they are there."""
    stored = Message.objects.for_conversation(turn.conversation_id).exchanges().filter(turn=turn)
    by_role = {message.role: message for message in stored}
    return by_role.get(Role.USER), by_role.get(Role.ASSISTANT)


def _line(message: Message) -> Tool:
    status: ToolStatus = "failed" if message.success is False else "done"
    return Tool(
        tool_call_id=message.tool_call_id,
        tool_name=message.name,
        status="denied" if message.error == DENIED else status,
        relance_index=message.relance_index or 0,
        duration_ms=message.duration_ms,
    )


#: The longest result of one tool that a thread keeps.
TOOL_MESSAGE_MAX_CHARACTERS = 50_000

#: What a call got whose tool was not run to its end.
INTERRUPTED = "interrupted"


def failure_content(code: str, message: str) -> str:
    """What the model reads of a call that has no result."""
    return json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False)


def tool_message(request: Message, call: RequestedCall, **columns: Any) -> Message:
    """What a call of this request came to, in the same batch."""
    return Message(
        conversation_id=request.conversation_id,
        turn_id=request.turn_id,
        operation_id=request.operation_id,
        relance_index=request.relance_index,
        role=Role.TOOL,
        tool_call_id=call.id,
        name=call.name,
        **columns,
    )


def unanswered(request: Message, call: RequestedCall) -> Message:
    """The tool message of a call whose own was lost."""
    return tool_message(
        request,
        call,
        content=failure_content(INTERRUPTED, "The tool was interrupted; whether it took effect is not known."),
        success=False,
        error=INTERRUPTED,
        timestamp=request.timestamp or request.created_at,
    )


def repaired(messages: Sequence[Message]) -> list[Message]:
    """The thread as a strict model API takes it: each call with its tool message (else a failed one), and no other."""
    thread: list[Message] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if message.role == Role.TOOL:
            continue
        thread.append(message)
        if not message.tool_calls:
            continue
        following: list[Message] = []
        while position < len(messages) and not messages[position].tool_calls:
            following.append(messages[position])
            position += 1
        answers: dict[str, Message] = {}
        for answer in following:
            if answer.role == Role.TOOL:
                answers.setdefault(answer.tool_call_id, answer)
        thread += [answers.get(call.id) or unanswered(message, call) for call in message.calls]
        thread += [other for other in following if other.role != Role.TOOL]
    return thread


def blocks(messages: Sequence[Message]) -> list[list[Message]]:
    """What may only be kept or dropped together: a request with its tool messages, or any other single message."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role == Role.TOOL and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def pruned(messages: Sequence[Message], limit: int) -> list[Message]:
    """The last whole blocks that make `limit` messages at most; the last block stays even where it alone is longer."""
    units = blocks(messages)
    kept = _newest(units, limit) or units[-1:]
    return [message for block in kept for message in block]


def after_turn(messages: tuple[Message, ...], turn_id: uuid.UUID | None) -> tuple[Message, ...]:
    """What stands after a turn's last message; everything where the turn is not among these messages."""
    ends = [position for position, each in enumerate(messages, 1) if each.turn_id == turn_id]
    return messages[ends[-1] :] if ends else messages


def fitting_history(messages: Sequence[Message], *, exchanges: int, limit: int) -> list[Message]:
    """The last exchanges (a question and all that followed), as many as fit; a question without a sequel is left out."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == Role.USER or not groups:
            groups.append([])
        groups[-1].append(message)
    complete = [group for group in groups if len(group) > 1 or group[0].role != Role.USER]
    last = complete[-exchanges:] if exchanges else []
    return [message for group in _newest(last, limit) for message in group]


def _newest(units: Sequence[list[Message]], limit: int) -> list[list[Message]]:
    kept: list[list[Message]] = []
    room = limit
    for unit in reversed(units):
        room -= len(unit)
        if room < 0:
            break
        kept.append(unit)
    return kept[::-1]


#: What model APIs accept as the name of a function.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_JSON = object()


def check_batch(messages: Sequence[Message], *, max_tool_calls: int) -> None:
    """Raise `InvalidToolMessageError` unless `messages` are one whole block, or the tool messages of one."""
    if not messages:
        _refuse(_("« messages » est vide."))
    request, answers = messages[0], list(messages)
    if request.role == Role.ASSISTANT:
        answers = answers[1:]
        _check_calls(request)
    for number, message in enumerate(answers, start=len(messages) - len(answers)):
        _check_answer(message, where=f"messages[{number}]")
    if len(answers) > max_tool_calls:
        _refuse(_("Au plus %(limit)d appels d’outils par relance.") % {"limit": max_tool_calls})
    if len({message.tool_call_id for message in answers}) < len(answers):
        _refuse(_("Deux messages « tool » répondent au même appel."))
    if request.role == Role.ASSISTANT:
        asked = [(call.id, call.name) for call in request.calls]
        if asked != [(message.tool_call_id, message.name) for message in answers]:
            _refuse(
                _(
                    "Chaque appel de « tool_calls » demande un message « tool » de même « tool_call_id » et « name », "
                    "dans le même ordre."
                )
            )


def _check_calls(request: Message) -> None:
    if not request.tool_calls:
        _refuse(_("messages[0] : un message « assistant » doit porter des « tool_calls »."))
    for call in request.calls:
        where = f"tool_calls « {call.id[:MAX_CALL_ID]} »"
        if not 0 < len(call.id) <= MAX_CALL_ID:
            _refuse(
                _("%(where)s : « id » doit avoir de 1 à %(limit)d caractères.") % {"where": where, "limit": MAX_CALL_ID}
            )
        if not _NAME.fullmatch(call.name):
            _refuse(_("%(where)s : « name » n’est pas un nom de fonction.") % {"where": where})
        if parsed_object(call.arguments) is None:
            _refuse(_("%(where)s : « arguments » doit être un objet JSON, en texte.") % {"where": where})
    if len({call.id for call in request.calls}) < len(request.tool_calls):
        _refuse(_("Deux appels de « tool_calls » ont le même « id »."))


def _check_answer(message: Message, *, where: str) -> None:
    if message.role != Role.TOOL or message.tool_calls:
        _refuse(_("%(where)s : un message « tool » est attendu ici.") % {"where": where})
    if not message.tool_call_id or not message.name:
        _refuse(_("%(where)s : « tool_call_id » et « name » sont obligatoires.") % {"where": where})
    if _parsed(message.content) is _NOT_JSON:
        _refuse(_("%(where)s : « content » doit être du JSON, en texte.") % {"where": where})
    if len(message.content) > TOOL_MESSAGE_MAX_CHARACTERS:
        _refuse(
            _("%(where)s : « content » dépasse %(limit)d caractères.")
            % {"where": where, "limit": TOOL_MESSAGE_MAX_CHARACTERS}
        )


def parsed_object(text: str) -> dict[str, Any] | None:
    """The JSON object of a call's arguments; none where the text is something else."""
    value = _parsed(text)
    return value if isinstance(value, dict) else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _refuse(message: str) -> NoReturn:
    raise InvalidToolMessageError("invalid batch", public_message=message)


class Owned(Protocol):
    """Anything that was said: it belongs to one conversation, or to none."""

    @property
    def conversation_id(self) -> uuid.UUID | None: ...


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
    """The last `limit` answered questions of the current branch with their answers, oldest first."""
    messages = Message.objects.for_conversation(conversation_id).exchanges()
    finished = messages.filter(turn__status=TurnStatus.DONE).with_persons().order_by("-id")
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


def newest_messages(conversation_id: uuid.UUID, turns: Collection[uuid.UUID] | None, limit: int) -> list[Message]:
    """The last messages of a branch, oldest first."""
    newest = Message.objects.for_conversation(conversation_id).on_branch(turns).with_persons().order_by("-id")
    return in_turn_order(reversed(newest[:limit]))


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
        raise IsolationError(f"{len(foreign)} messages of other conversations were loaded for {conversation_id}.")
