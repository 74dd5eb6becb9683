"""Threads as blocks: whatever is stored, what a model gets is acceptable, and shortening cuts no block."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.base import RequestedCall
from chat.models import Message, Role
from chat.thread.messages import blocks, fitting_history, pruned, repaired
from tests.servers.model_server import check_chat_request

CONVERSATION = uuid.uuid4()
IDS = st.sampled_from("abcd")


def _message(role: Role, calls: list[str], answered: str) -> Message:
    if role is Role.TOOL:
        return Message(conversation_id=CONVERSATION, role=role, content="{}", tool_call_id=answered, name="t")
    asked = [RequestedCall(call, "t", "{}").as_json() for call in calls if role is Role.ASSISTANT]
    return Message(conversation_id=CONVERSATION, role=role, content="x", tool_calls=asked)


MESSAGES = st.lists(
    st.builds(_message, st.sampled_from(Role), st.lists(IDS, max_size=3, unique=True), IDS), max_size=20
)


def accept(messages: list[Message]) -> None:
    """Raise where a strict server would refuse these messages, after the question that opens a thread."""
    wire: list[dict[str, object]] = [{"role": "user", "content": "q"}]
    for message in messages:
        row: dict[str, object] = {"role": str(message.role), "content": message.content}
        if message.tool_calls:
            row["tool_calls"] = message.tool_calls
        if message.role == Role.TOOL:
            row["tool_call_id"] = message.tool_call_id
        wire.append(row)
    check_chat_request({"model": "m", "messages": wire})


@given(messages=MESSAGES)
def test_any_stored_thread_becomes_acceptable_and_repair_is_idempotent(messages: list[Message]) -> None:
    thread = repaired(messages)
    accept(thread)
    assert repaired(thread) == thread
    kept = [m for m in thread if m.role != Role.TOOL]
    assert kept == [m for m in messages if m.role != Role.TOOL]


@given(messages=MESSAGES, limit=st.integers(0, 12))
def test_pruning_cuts_no_block_and_keeps_the_last_one(messages: list[Message], limit: int) -> None:
    thread = repaired(messages)
    kept = pruned(thread, limit)
    accept(kept)
    assert kept == thread[len(thread) - len(kept) :]
    last = blocks(thread)[-1] if thread else []
    assert len(kept) <= max(limit, len(last))
    assert kept[len(kept) - len(last) :] == last


@given(messages=MESSAGES, exchanges=st.integers(0, 5), limit=st.integers(0, 12))
def test_history_is_bounded_whole_and_has_no_question_without_a_sequel(
    messages: list[Message], exchanges: int, limit: int
) -> None:
    history = fitting_history(repaired(messages), exchanges=exchanges, limit=limit)
    accept(history)
    assert len(history) <= limit
    roles = [m.role for m in history]
    assert roles.count(Role.USER) <= exchanges
    assert (Role.USER, Role.USER) not in list(zip(roles, roles[1:], strict=False))


@pytest.mark.parametrize("answers", [["b", "a"], ["a", "b", "a"], ["b"], []])
def test_ordre_verifie_tool_messages_come_back_in_the_order_of_their_calls(answers: list[str]) -> None:
    request = _message(Role.ASSISTANT, ["a", "b"], "")
    thread = repaired([request, *(_message(Role.TOOL, [], call) for call in answers)])
    assert [m.tool_call_id for m in thread] == ["", "a", "b"]
    assert [m.success for m in thread[1:]] == [None if call in answers else False for call in ("a", "b")]
