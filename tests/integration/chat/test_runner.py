"""Running turns under trouble: callers that leave, leases, readers that come back, processes that died."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError
from django.test import TestCase, override_settings
from django.utils import timezone

from agents.bridges import in_database
from agents.llm.scripted import ScriptedReply
from agents.models import Deployment
from chat import runner as runner_module
from chat.exceptions import ConversationNotFoundError
from chat.models import Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import Delta, Done, Failure
from chat.runner import NumberedEvent, Runner, TurnLog
from chat.thread import save_exchange
from faqs.models import UnansweredQuestion
from tests.factories import make_conversation, make_library, make_turn
from tests.integration.chat.test_turn import FAR, KNOWN, NEAR, scripted


async def start(runner: Runner, conversation: Conversation, question: str) -> uuid.UUID:
    return await runner.start(conversation, question=question, client_message_id="a", language="fr")


async def told(runner: Runner, turn_id: uuid.UUID, after: int = 0) -> list[NumberedEvent]:
    return [numbered async for numbered in runner.follow(turn_id, after)]


class RunnerTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()

    async def test_caller_that_leaves_during_the_claim_loses_no_turn(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        caller = asyncio.create_task(start(runner, conversation, KNOWN))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        turn_id = await start(runner, conversation, KNOWN)
        last = (await told(runner, turn_id))[-1][1]
        assert isinstance(last, Done)
        assert last.answer_source == "direct_qa"

    async def test_leases_are_renewed_again_after_a_database_error(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        renewed = mock.Mock(side_effect=[OperationalError("locked"), None, None, None, None])
        with (
            scripted(ScriptedReply(pieces=["Un", " deux", " trois"], interval=0.1)),
            override_settings(TURN_LEASE_SECONDS=0.15),
            mock.patch.object(runner_module, "renew_turns", renewed),
        ):
            await told(runner, await start(runner, conversation, NEAR))
        assert renewed.call_count > 1

    async def test_reader_that_has_seen_all_so_far_gets_nothing_twice(self) -> None:
        log = TurnLog()
        log.append(Delta("Bon"))
        log.append(Delta("jour"))
        runner, turn_id = Runner(), uuid.uuid4()
        runner._logs[turn_id] = log
        reader = asyncio.create_task(told(runner, turn_id, after=2))
        await asyncio.sleep(0.01)
        log.append(Failure("x", "fin", retryable=False))
        assert [number for number, _event in await reader] == [3]

    async def test_turn_of_another_process_is_waited_for(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        elsewhere = Runner()
        with (
            scripted(ScriptedReply(pieces=["Un", " deux"], interval=0.1)),
            override_settings(TURN_POLL_SECONDS=0.02),
        ):
            turn_id = await start(elsewhere, conversation, NEAR)
            last = (await told(Runner(), turn_id))[-1][1]
        assert isinstance(last, Done)
        assert (last.status, last.content) == ("done", "Un deux")

    async def test_turn_of_a_dead_process_is_told_as_interrupted(self) -> None:
        turn = await in_database(
            make_turn,
            await in_database(make_conversation, self.deployment),
            status=TurnStatus.RUNNING,
            lease_expires_at=timezone.now() - timedelta(seconds=1),
        )
        last = (await told(Runner(), turn.pk))[-1][1]
        assert isinstance(last, Done)
        assert last.status == "interrupted"

    async def test_turn_taken_for_dead_keeps_its_answer_when_it_ends_after_all(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        with scripted(ScriptedReply(pieces=["Un", " deux"], interval=0.1)):
            turn_id = await start(runner, conversation, NEAR)
            await in_database(Turn.objects.filter(pk=turn_id).update, status=TurnStatus.INTERRUPTED)
            await told(runner, turn_id)
        turn = await Turn.objects.aget(pk=turn_id)
        answer = await Message.objects.aget(turn=turn, role=Role.ASSISTANT)
        assert (turn.status, answer.content) == (TurnStatus.DONE, "Un deux")

    async def test_answer_that_cannot_be_saved_ends_in_an_error_that_says_so(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        with mock.patch("chat.turn.save_exchange", side_effect=OperationalError("disk full")):
            events = await told(runner, await start(runner, conversation, KNOWN))
        last = events[-1][1]
        assert isinstance(last, Failure)
        assert last.code == "answer_not_saved"

    async def test_answer_is_saved_once_the_database_is_back(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        tries = iter([OperationalError("locked"), None])

        def hiccup(**answer: Any) -> int | None:
            if (error := next(tries)) is not None:
                raise error
            return save_exchange(**answer)

        with mock.patch("chat.turn.save_exchange", hiccup):
            last = (await told(runner, await start(runner, conversation, KNOWN)))[-1][1]
        assert isinstance(last, Done)
        assert last.message_id is not None

    async def test_question_to_a_deleted_conversation_is_refused_by_name(self) -> None:
        gone = await in_database(make_conversation, self.deployment)
        await in_database(Conversation.objects.filter(pk=gone.pk).delete)
        with pytest.raises(ConversationNotFoundError):
            await start(Runner(), gone, KNOWN)

    async def test_title_of_the_model_comes_after_the_answer_and_delays_it_by_nothing(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        await in_database(_generate_titles, self.deployment)
        slow = ScriptedReply(pieces=["Salles", " de travail"], interval=0.2)
        with scripted(["La réponse."], slow):
            turn_id = await start(runner, conversation, NEAR)
            done = (await told(runner, turn_id))[-1][1]
            named_at_once = await Conversation.objects.aget(pk=conversation.pk)
            await _settle()
        await conversation.arefresh_from_db()
        assert isinstance(done, Done)
        assert named_at_once.title != conversation.title
        assert conversation.title == "Salles de travail"
        assert (await Turn.objects.aget(pk=turn_id)).llm_calls == 2

    async def test_name_that_a_person_gave_meanwhile_is_kept(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        await in_database(_generate_titles, self.deployment)
        with scripted(["La réponse."], ScriptedReply(pieces=["Du", " modèle"], interval=0.1)):
            await told(runner, await start(runner, conversation, NEAR))
            await in_database(
                Conversation.objects.filter(pk=conversation.pk).update, title="De moi"
            )
            await _settle()
        await conversation.arefresh_from_db()
        assert conversation.title == "De moi"


def _generate_titles(deployment: Deployment) -> None:
    deployment.config_overlay = {"generate_titles": True}
    deployment.save()


async def _settle() -> None:
    """Wait for what goes on after an answer."""
    tasks = [
        task for task in asyncio.all_tasks() if task.get_name().startswith(("turn-", "settling-"))
    ]
    tasks = [task for task in tasks if task.get_name() != "turn-heartbeat"]
    await asyncio.gather(*tasks, return_exceptions=True)


class AfterwardsTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()

    @override_settings(AFTERWARDS_DELAY_SECONDS=60.0)
    async def test_what_a_turn_teaches_is_kept_when_the_server_stops(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        await told(runner, await start(runner, conversation, FAR))
        await asyncio.sleep(0)
        await runner.drain()
        assert await UnansweredQuestion.objects.acount() == 1

    @override_settings(AFTERWARDS_DELAY_SECONDS=60.0)
    async def test_deleted_conversation_leaves_no_question_behind(self) -> None:
        runner, conversation = Runner(), await in_database(make_conversation, self.deployment)
        await told(runner, await start(runner, conversation, FAR))
        await asyncio.sleep(0)
        await in_database(Conversation.objects.filter(pk=conversation.pk).delete)
        await runner.drain()
        assert not await UnansweredQuestion.objects.aexists()
