"""A thread as its reader sees it: the current branch, with the tools of each answer and the versions of each question."""

import uuid
from dataclasses import dataclass, field

from chat.models import Conversation, Message, Role, Turn
from chat.protocol import Tool, ToolStatus
from chat.thread.branches import Versions, in_turn_order, line_to, load_parents, versions_on
from chat.thread.rounds import DENIED


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
