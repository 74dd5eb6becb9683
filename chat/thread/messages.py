"""What was said, as the steps of a turn read it: the question before, finished exchanges, the newest messages.

`check_isolation` stands before every call of a model. Nothing is written here.
"""

import uuid
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from django.db.models import F

from agents.database import PreparedSelect, parameter
from agents.llm.base import PromptMessage
from chat.exceptions import IsolationError
from chat.logs import log_isolation
from chat.models import Message, Role, TurnStatus
from chat.thread.blocks import ThreadMessage
from chat.thread.branches import branch_turns, in_turn_order


class Owned(Protocol):
    """Anything that was said: it belongs to one conversation, or to none."""

    @property
    def conversation_id(self) -> uuid.UUID | None: ...


_NEWEST_QUESTIONS = PreparedSelect(
    lambda: (
        Message.objects.filter(conversation=parameter(Message, "conversation"), role=Role.USER)
        .order_by("-id")
        .values_list("turn", "content", "conversation__leaf")[:2]
    )
)


def previous_question(*, conversation_id: uuid.UUID, turn_id: uuid.UUID | None) -> str:
    """The question before this turn's on the branch, however it ended: a follow-up leans on it, answered or not."""
    # That of this turn, and the one before.
    rows = _NEWEST_QUESTIONS.rows(conversation=conversation_id)
    found = [(text, leaf) for turn, text, leaf in rows if turn_id is None or turn != turn_id]
    text, leaf = found[0] if found else ("", None)
    if leaf is None:
        return text
    questions = Message.objects.for_conversation(conversation_id).filter(role=Role.USER)
    if turn_id is not None:
        questions = questions.exclude(turn=turn_id)
    newest = questions.order_by("-id")
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


def newest_messages(conversation_id: uuid.UUID, turns: Collection[uuid.UUID] | None, limit: int) -> list[ThreadMessage]:
    """The last messages of a branch, oldest first."""
    newest = Message.objects.for_conversation(conversation_id).on_branch(turns).order_by("-id")
    return [ThreadMessage.of(message) for message in in_turn_order(reversed(newest[:limit]))]


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
