"""The tree of a conversation: what is asked again or edited, which branch is read, and what every reader makes of it."""

import uuid
from typing import Any
from unittest import mock

import pytest
from django.test import Client, TestCase
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase as PropertyTestCase

from chat.errors import ThreadConflictError, TurnNotFoundError, TurnNotLastError, TurnRunningError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.thread import turns
from chat.thread.messages import (
    branch_turns,
    hold_conversation,
    load_parents,
    previous_question,
    show_version,
    versions_on,
)
from chat.thread.rounds import append_batch, load_thread, recent_tools
from chat.thread.turns import claim_turn, reopen_turn
from chat.turn.prompt import load_exchanges
from tests.factories import make_batch, make_conversation, make_deployment, make_exchange, save_answer


def asked(conversation: Conversation, question: str, replaces: uuid.UUID | None = None) -> uuid.UUID:
    """One whole turn, through the verbs that a turn uses."""
    claimed = claim_turn(
        conversation_id=conversation.pk, client_message_id=str(uuid.uuid4()), question=question, replaces=replaces
    )
    save_answer(claimed, f"answer to {question}")
    return claimed.turn.pk


def questions(conversation: Conversation) -> list[str]:
    thread = load_thread(conversation_id=conversation.pk, limit=1_000)
    return [message.content for message in thread.messages if message.role == Role.USER]


def used(conversation: Conversation, turn_id: uuid.UUID, tool: str) -> None:
    """A tool message of this turn."""
    Message.objects.create(
        conversation=conversation,
        turn_id=turn_id,
        role=Role.TOOL,
        name=tool,
        tool_call_id=tool,
        operation_id=uuid.uuid4(),
    )


class BranchTests(TestCase):
    def setUp(self) -> None:
        self.conversation = make_conversation()
        self.turns = [asked(self.conversation, f"q{number}") for number in range(3)]

    def test_tool_of_an_abandoned_branch_was_not_used_lately(self) -> None:
        conversation = make_conversation()
        first = asked(conversation, "un")
        used(conversation, first, "kept")
        second = asked(conversation, "deux")
        used(conversation, second, "abandoned")
        assert recent_tools(conversation.pk, limit=10) == ["abandoned", "kept"]
        other = asked(conversation, "deux, autrement", replaces=second)
        assert recent_tools(conversation.pk, limit=10) == ["kept"]
        used(conversation, other, "chosen")
        assert recent_tools(conversation.pk, limit=1) == ["chosen"]
        show_version(conversation.pk, second)
        assert recent_tools(conversation.pk, limit=10) == ["abandoned", "kept"]

    def test_history_and_previous_question_follow_the_branch(self) -> None:
        new = asked(self.conversation, "q2 again", replaces=self.turns[2])
        loaded = load_exchanges(conversation_id=self.conversation.pk, limit=3)
        assert [exchange.question for exchange in loaded] == ["q0", "q1", "q2 again"]
        assert previous_question(conversation_id=self.conversation.pk, turn_id=new) == "q1"

    def test_line_without_parents_of_older_versions_branches_too(self) -> None:
        old = make_conversation()
        turns = [make_exchange(old, f"o{number}", "a") for number in range(3)]
        assert {turn.parent_id for turn in turns} == {None}
        asked(old, "o2 edited", replaces=turns[2].pk)
        assert questions(old) == ["o0", "o1", "o2 edited"]

    def test_turn_of_another_conversation_is_not_replaced(self) -> None:
        other = make_conversation()
        for unknown in (self.turns[0], uuid.uuid4()):
            with pytest.raises(TurnNotFoundError):
                claim_turn(conversation_id=other.pk, client_message_id="a", question="q", replaces=unknown)
        assert not Turn.objects.filter(conversation=other).exists()

    def test_turn_reads_its_own_branch_whichever_is_current(self) -> None:
        new = asked(self.conversation, "q1 edited", replaces=self.turns[1])
        thread = load_thread(conversation_id=self.conversation.pk, limit=50, turn_id=self.turns[2])
        assert new not in {message.turn_id for message in thread.messages}
        assert self.turns[2] in {message.turn_id for message in thread.messages}

    def test_writer_that_read_another_branch_is_in_conflict(self) -> None:
        asked(self.conversation, "q2 edited", replaces=self.turns[2])
        version = load_thread(conversation_id=self.conversation.pk, limit=50).version
        show_version(self.conversation.pk, self.turns[2])
        batch = make_batch(self.conversation, "late")
        with pytest.raises(ThreadConflictError):
            append_batch(batch, max_tool_calls=10, expected_version=version)

    def test_claim_that_read_another_branch_stores_nothing(self) -> None:
        asked(self.conversation, "q2 edited", replaces=self.turns[2])

        def overtaken(conversation_id: uuid.UUID) -> Conversation:
            found = hold_conversation(conversation_id)
            Conversation.objects.filter(pk=conversation_id).update(leaf=self.turns[2])
            return found

        with mock.patch.object(turns, "hold_conversation", overtaken), pytest.raises(TurnRunningError):
            claim_turn(conversation_id=self.conversation.pk, client_message_id="a", question="q3")
        assert not Turn.objects.filter(client_message_id="a").exists()

    def test_interrupted_turn_of_another_branch_is_not_retried(self) -> None:
        edited = asked(self.conversation, "q1 edited", replaces=self.turns[1])
        Turn.objects.filter(pk__in=[edited, self.turns[2]]).update(status=TurnStatus.INTERRUPTED)
        with pytest.raises(TurnNotLastError):
            reopen_turn(self.turns[2])
        assert reopen_turn(edited)

    def test_version_asked_before_another_is_retried_where_it_is_shown(self) -> None:
        asked(self.conversation, "q2 edited", replaces=self.turns[2])
        show_version(self.conversation.pk, self.turns[2])
        Turn.objects.filter(pk=self.turns[2]).update(status=TurnStatus.INTERRUPTED)
        assert reopen_turn(self.turns[2])

    def test_linear_question_costs_no_tree(self) -> None:
        with self.assertNumQueries(6):  # savepoint, conversation, turn, version, message, release
            claim_turn(conversation_id=self.conversation.pk, client_message_id="n", question="q3")
        with self.assertNumQueries(1):
            load_exchanges(conversation_id=self.conversation.pk, limit=3)
        with self.assertNumQueries(1):
            previous_question(conversation_id=self.conversation.pk, turn_id=None)
        with self.assertNumQueries(1):
            recent_tools(self.conversation.pk, limit=10)


#: What people do to a conversation: ask on, replace some turn, show some version, let a server append.
OPERATIONS = st.lists(st.tuples(st.sampled_from(["ask", "replace", "show", "batch"]), st.integers(0, 30)), max_size=14)


class TreeProperties(PropertyTestCase):
    @given(OPERATIONS)
    @settings(max_examples=60, deadline=None)
    def test_every_reader_sees_the_one_branch_that_was_built(self, operations: list[tuple[str, int]]) -> None:
        conversation, other = make_conversation(), make_conversation()
        foreign = asked(other, "foreign")
        lines: list[list[uuid.UUID]] = [[]]  # every branch that was ever current, the last one now
        made: list[uuid.UUID] = []
        batches: dict[str, list[uuid.UUID]] = {}
        for number, (kind, pick) in enumerate(operations):
            current = lines[-1]
            if kind == "batch" and current:
                name = f"call{number}"
                append_batch(make_batch(conversation, name), max_tool_calls=10)
                batches[name] = current
                continue
            if kind == "show" and made:
                target = made[pick % len(made)]
                show_version(conversation.pk, target)
                if target not in current:
                    lines.append(_newest_line(lines, target))
                continue
            replaced = made[pick % len(made)] if kind == "replace" and made else None
            turn = asked(conversation, f"q{number}", replaces=replaced)
            stem = current
            if replaced is not None:
                line = next(line for line in lines if replaced in line)
                stem = line[: line.index(replaced)]
            lines.append([*stem, turn])
            made.append(turn)
        current = lines[-1]
        conversation.refresh_from_db()
        stored = Message.objects.for_conversation(conversation.pk)
        on_branch = branch_turns(conversation.pk, conversation.leaf)
        shown = stored.on_branch(on_branch)
        assert [m.turn_id for m in shown if m.role == Role.USER] == current
        assert [m.turn_id for m in shown.exchanges() if m.role == Role.ASSISTANT] == current
        assert [m.tool_call_id for m in shown if m.role == Role.TOOL] == [
            name for name, line in batches.items() if line == current[: len(line)]
        ]
        assert set(load_parents(conversation.pk)) == set(made)
        assert foreign not in {m.turn_id for m in shown}
        for turn, versions in versions_on(load_parents(conversation.pk), current).items():
            assert versions.turn_ids[versions.position - 1] == turn
            assert len(set(versions.turn_ids)) == len(versions.turn_ids) > 1
        loaded = load_exchanges(conversation_id=conversation.pk, limit=3)
        wanted = Message.objects.filter(turn__in=current[-3:], role=Role.USER).order_by("id")
        assert [exchange.question for exchange in loaded] == [m.content for m in wanted]


def _newest_line(lines: list[list[uuid.UUID]], turn: uuid.UUID) -> list[uuid.UUID]:
    """The branch through a turn that ends at the newest version of each place after it."""
    line = next(line for line in lines if turn in line)
    line = line[: line.index(turn) + 1]
    # Lines are in the order they became current, not made: the newest child is the one made last.
    made = [turn for made_line in lines for turn in made_line]
    order = {turn: made.index(turn) for turn in made}
    newest: dict[uuid.UUID, uuid.UUID] = {}
    for other in lines:
        for parent, child in zip(other, other[1:], strict=False):
            if parent not in newest or order[child] > order[newest[parent]]:
                newest[parent] = child
    while line[-1] in newest:
        line.append(newest[line[-1]])
    return line


class BranchApiTests(TestCase):
    """The same over HTTP, for the owner of the conversation only."""

    def setUp(self) -> None:
        client = Client()
        created = client.post("/api/conversations/", {"deployment": make_deployment().slug}, "application/json")
        self.client, self.url = client, f"/api/conversations/{created.json()['id']}/"
        self.conversation = Conversation.objects.get(pk=created.json()["id"])
        self.first = asked(self.conversation, "q0")
        self.second = asked(self.conversation, "q1")

    def texts(self) -> list[str]:
        messages = self.client.get(f"{self.url}messages/").json()["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]

    def show(self, turn: uuid.UUID, client: Client | None = None) -> Any:
        body = {"turnId": str(turn)}
        return (client or self.client).post(f"{self.url}branch/", body, "application/json")

    def test_page_is_told_the_versions_and_shows_another_one(self) -> None:
        edited = asked(self.conversation, "q1 edited", replaces=self.second)
        body = self.client.get(f"{self.url}messages/").json()
        versions = [m["versions"] for m in body["messages"] if m["role"] == "user"]
        assert versions == [None, {"position": 2, "turnIds": [str(self.second), str(edited)]}]
        shown = self.show(self.second).json()["messages"]
        assert [m["content"] for m in shown if m["role"] == "user"] == ["q0", "q1"]
        assert self.texts() == ["q0", "q1"]

    def test_other_people_and_other_turns_are_not_found(self) -> None:
        assert self.show(self.first, Client()).status_code == 404
        assert self.show(uuid.uuid4()).status_code == 404

    def test_open_turn_refuses_another_version(self) -> None:
        asked(self.conversation, "q1 edited", replaces=self.second)
        claim_turn(conversation_id=self.conversation.pk, client_message_id="a", question="q2")
        response = self.show(self.second)
        assert (response.status_code, response.json()["code"]) == (409, "turn_running")
