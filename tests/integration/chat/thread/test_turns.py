"""Turns: claimed once, freed where their process died, saved once, read in order."""

from datetime import timedelta
from functools import partial

import pytest
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from chat.errors import ConversationNotFoundError, TurnRunningError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.thread.messages import previous_question, read_branch
from chat.thread.rounds import load_thread
from chat.thread.turns import claim_turn, default_title, interrupt_stale_turns
from chat.turn.prompt import load_exchanges
from tests.factories import fresh, make_conversation, make_exchange, make_turn, save_answer
from tests.waiting import in_threads


class ClaimTests(TestCase):
    def test_question_is_stored_when_its_turn_is_claimed(self) -> None:
        conversation = make_conversation()
        claimed = claim_turn(conversation_id=conversation.pk, client_message_id="a", question="Où est la mairie ?")
        message = Message.objects.for_conversation(conversation.pk).get()
        assert (message.role, message.content, message.turn_id) == (Role.USER, "Où est la mairie ?", claimed.turn.pk)

    def test_turn_of_a_dead_process_is_interrupted_and_frees_the_conversation(self) -> None:
        conversation = make_conversation()
        dead = make_turn(
            conversation, status=TurnStatus.RUNNING, lease_expires_at=timezone.now() - timedelta(seconds=1)
        )
        with pytest.raises(TurnRunningError):
            claim_turn(conversation_id=conversation.pk, client_message_id="b", question="Qui ?")
        assert interrupt_stale_turns(conversation.pk) == 1
        claim_turn(conversation_id=conversation.pk, client_message_id="b", question="Qui ?")
        assert fresh(dead).status == TurnStatus.INTERRUPTED

    def test_title_is_the_start_of_the_first_question(self) -> None:
        conversation = make_conversation()
        claim_turn(conversation_id=conversation.pk, client_message_id="a", question="mot " * 30)
        conversation.refresh_from_db()
        assert len(conversation.title) == 50
        assert conversation.title.endswith("…")
        assert default_title("Où est\nla mairie ?") == "Où est la mairie ?"

    def test_conversation_whose_title_was_emptied_keeps_its_history(self) -> None:
        conversation = make_conversation()
        first = claim_turn(conversation_id=conversation.pk, client_message_id="a", question="Où ?")
        Turn.objects.update(status=TurnStatus.DONE)
        Conversation.objects.update(title="")
        later = claim_turn(conversation_id=conversation.pk, client_message_id="b", question="Qui ?")
        assert (first.is_first, later.is_first) == (True, False)

    def test_exchange_is_saved_once(self) -> None:
        conversation = make_conversation()
        claimed = claim_turn(conversation_id=conversation.pk, client_message_id="a", question="Où ?")

        def save() -> int | None:
            return save_answer(claimed, "Ici.")

        assert save() is not None
        with pytest.raises(ConversationNotFoundError):
            save()
        assert Message.objects.filter(role=Role.ASSISTANT).count() == 1


class ConcurrentClaimTests(TransactionTestCase):
    def test_of_many_sends_at_once_one_turn_runs(self) -> None:
        conversation = make_conversation()

        def send(name: str) -> bool:
            try:
                return claim_turn(conversation_id=conversation.pk, client_message_id=name, question="Où ?").is_new
            except TurnRunningError:
                return False

        assert in_threads(*(partial(send, name) for name in "aabbcc")).count(True) == 1
        assert Turn.objects.count() == 1
        assert Message.objects.count() == 1


class ReadingTests(TestCase):
    def test_previous_question_is_the_one_asked_before_however_it_ended(self) -> None:
        conversation = make_conversation()
        make_exchange(conversation, "q1", "a1")
        make_exchange(conversation, "q2", "", status=TurnStatus.FAILED)
        claimed = claim_turn(conversation_id=conversation.pk, client_message_id="c", question="q3")
        assert previous_question(conversation_id=conversation.pk, turn_id=claimed.turn.pk) == "q2"

    def test_exchanges_come_oldest_first_and_finished_only(self) -> None:
        conversation, other = make_conversation(), make_conversation()
        for number in range(4):
            make_exchange(conversation, f"q{number}", f"a{number}")
        make_exchange(conversation, "q", "partial", status=TurnStatus.INTERRUPTED)
        make_exchange(other, "foreign", "foreign")
        loaded = load_exchanges(conversation_id=conversation.pk, limit=3)
        assert [exchange.question for exchange in loaded] == ["q1", "q2", "q3"]


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

    def test_reader_and_model_are_told_each_answer_behind_its_question(self) -> None:
        shown = read_branch(self.conversation).messages
        told = load_thread(conversation_id=self.conversation.pk, limit=10).messages
        for messages in (shown, told):
            assert [(message.turn_id, message.role) for message in messages] == self.in_order

    def test_answer_whose_question_is_cut_away_is_not_the_last(self) -> None:
        told = load_thread(conversation_id=self.conversation.pk, limit=3).messages
        assert [message.turn_id for message in told][-2:] == [self.turns[1].pk] * 2

    def test_message_without_a_turn_keeps_its_place(self) -> None:
        Message.objects.create(conversation=self.conversation, role=Role.ASSISTANT, content="d'un service")
        told = load_thread(conversation_id=self.conversation.pk, limit=10).messages
        assert told[-1].content == "d'un service"
