"""Reads of a thread."""

import uuid

import pytest
from django.test import TestCase

from chat.errors import IsolationError
from chat.models import Message, Role, TurnStatus
from chat.thread.branches import read_branch
from chat.thread.messages import check_isolation, previous_question
from chat.thread.rounds import load_thread
from chat.thread.turns import claim_turn
from chat.turn.prompt import load_exchanges
from chat.turn.values import Exchange
from tests.factories import make_conversation, make_exchange, make_turn


class ReadingTests(TestCase):
    def test_previous_question_is_the_one_asked_before_however_it_ended(self) -> None:
        conversation = make_conversation()
        make_exchange(conversation, "q1", "a1")
        make_exchange(conversation, "q2", "", status=TurnStatus.FAILED)
        claimed = claim_turn(conversation_id=conversation.pk, client_message_id="c", question="q3")
        assert previous_question(conversation_id=conversation.pk, turn_id=claimed.turn_id) == "q2"

    def test_exchanges_come_oldest_first_and_finished_only(self) -> None:
        conversation, other = make_conversation(), make_conversation()
        for number in range(4):
            make_exchange(conversation, f"q{number}", f"a{number}")
        make_exchange(conversation, "q", "partial", status=TurnStatus.INTERRUPTED)
        make_exchange(other, "foreign", "foreign")
        loaded = load_exchanges(conversation_id=conversation.pk, limit=3)
        assert [exchange.question for exchange in loaded] == ["q1", "q2", "q3"]

    def test_foreign_exchange_raises_before_a_model_is_called(self) -> None:
        foreign = Exchange(conversation_id=uuid.uuid4(), question="q", answer="a")
        with pytest.raises(IsolationError):
            check_isolation([foreign], uuid.uuid4())


class LateAnswerTests(TestCase):
    """A turn that was taken for dead, and only was slow, stores its answer after the next question."""

    def setUp(self) -> None:
        self.conversation = make_conversation()
        self.turns = [make_turn(self.conversation) for _ in range(2)]
        for role in (Role.USER, Role.ASSISTANT):
            for turn in self.turns:
                Message.objects.create(
                    conversation=self.conversation, turn=turn, role=role, content=f"{role} {turn.pk}"
                )
        one, two = self.turns
        self.in_order = [(turn.pk, role) for turn in (one, two) for role in (Role.USER, Role.ASSISTANT)]

    def test_reader_sees_each_answer_behind_its_question(self) -> None:
        shown = read_branch(self.conversation).messages
        assert [(message.turn_id, message.role) for message in shown] == self.in_order

    def test_model_is_told_each_answer_behind_its_question(self) -> None:
        told = load_thread(conversation_id=self.conversation.pk, limit=10).messages
        assert [(message.turn_id, message.role) for message in told] == self.in_order

    def test_answer_whose_question_is_cut_away_is_not_the_last(self) -> None:
        told = load_thread(conversation_id=self.conversation.pk, limit=3).messages
        assert [message.turn_id for message in told][-2:] == [self.turns[1].pk] * 2

    def test_message_without_a_turn_keeps_its_place(self) -> None:
        Message.objects.create(conversation=self.conversation, role=Role.ASSISTANT, content="d'un service")
        told = load_thread(conversation_id=self.conversation.pk, limit=10).messages
        assert told[-1].content == "d'un service"
