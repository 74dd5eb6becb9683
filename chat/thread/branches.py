"""The tree of a conversation's turns: an edited question, or one asked again, is a sibling of the turn it replaces.

A *branch* is the line of turns to a *leaf*; the conversation's own leaf says which is shown. One that never branched
has no leaf and no parents. Turns are ordered by their questions, not by clocks.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone

from agents.database import short_write
from chat.errors import ConversationNotFoundError, TurnNotFoundError, TurnRunningError
from chat.models import OPEN_STATUSES, Conversation, Feedback, Message, Role, ToolRound, Turn
from chat.protocol import Tool, ToolStatus

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
    held = Conversation.objects.select_for_update(no_key=True).filter(pk=conversation_id).first()
    if held is None:
        raise ConversationNotFoundError(f"Conversation {conversation_id} is gone.")
    return held


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
    return Tool(
        tool_call_id=message.tool_call_id,
        tool_name=message.name,
        status=_status(message),
        relance_index=message.relance_index or 0,
        duration_ms=message.duration_ms,
    )


def _status(message: Message) -> ToolStatus:
    if message.error == DENIED:
        return "denied"
    return "failed" if message.success is False else "done"
