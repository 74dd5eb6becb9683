"""Running turns under trouble: callers that leave, leases, processes that died, and what a turn has yet to leave behind."""

import asyncio
import threading
import uuid
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError, connection
from django.test import TransactionTestCase, override_settings
from django.utils import timezone

from agents.database import in_database
from agents.errors import StorageUnavailableError
from agents.models import Deployment
from chat.errors import ConversationNotFoundError, ServerStoppingError, TurnNotLastError, TurnRunningError
from chat.models import Conversation, Feedback, Message, Role, Turn, TurnStatus, Verdict
from chat.protocol import AskFrame, Delta, Done, Failure
from chat.runs import runner as runner_module
from chat.runs.afterwards import _keep_question
from chat.runs.runner import EVENTS_PER_RUN, EventLogs, NumberedEvent, Runner
from chat.thread.turns import default_title, interrupt_stale_turns, save_exchange
from chat.thread.verdicts import give_feedback
from faqs.models import CachedResponse, UnansweredQuestion, UnansweredReason
from faqs.unanswered import Unanswered
from knowledge.embeddings.base import Purpose, embedder
from tests.constants import override
from tests.factories import make_conversation, make_exchange, make_turn
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, model, scripted
from tests.readers import LibraryCase
from tests.scripted import ScriptedReply
from tests.waiting import PATIENCE_SECONDS, until


async def start(runner: Runner, conversation: Conversation, question: str) -> uuid.UUID:
    return await runner.start(conversation, AskFrame(question, "a"), language="fr")


async def told(runner: Runner, turn_id: uuid.UUID, after: int = 0) -> list[NumberedEvent]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [numbered async for numbered in runner.follow(turn_id, after)]


async def end_of(runner: Runner, turn_id: uuid.UUID) -> Done:
    last = (await told(runner, turn_id))[-1][1]
    assert isinstance(last, Done), last
    return last


def clock_moved(by: timedelta) -> AbstractContextManager[object]:
    """What the time of day is to everybody in the process."""
    really = timezone.now

    def moved() -> datetime:
        return really() + by

    return mock.patch("django.utils.timezone.now", moved)


class RunnerCase(LibraryCase):
    def setUp(self) -> None:
        self.runner = Runner(EventLogs())
        self.conversation = make_conversation(self.deployment)

    async def dead_turn(self) -> Turn:
        """A turn whose process died a moment ago."""
        expired = timezone.now() - timedelta(seconds=1)
        return await in_database(make_turn, self.conversation, status=TurnStatus.RUNNING, lease_expires_at=expired)


class RunnerTests(RunnerCase):
    async def test_caller_that_leaves_during_the_claim_loses_no_turn(self) -> None:
        caller = asyncio.create_task(start(self.runner, self.conversation, KNOWN))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        turn_id = await start(self.runner, self.conversation, KNOWN)
        last = await end_of(self.runner, turn_id)
        assert last.answer_source == "direct_qa"

    async def fallen(self) -> uuid.UUID:
        """A turn that fell with the database."""
        trouble = mock.AsyncMock(side_effect=StorageUnavailableError("database is locked"))
        with mock.patch("chat.turn.path.dispatch_and_search", trouble):
            turn_id = await start(self.runner, self.conversation, KNOWN)
            last = (await told(self.runner, turn_id))[-1][1]
        assert isinstance(last, Failure)
        assert (last.code, last.retryable) == ("storage_unavailable", True)
        return turn_id

    async def test_message_whose_turn_fell_with_the_database_is_answered_when_it_comes_again(self) -> None:
        turn_id = await self.fallen()
        assert await start(self.runner, self.conversation, KNOWN) == turn_id
        await end_of(self.runner, turn_id)
        assert await Message.objects.filter(conversation=self.conversation).acount() == 2

    async def test_message_comes_again_after_the_conversation_went_on(self) -> None:
        fallen = await self.fallen()
        later = await self.runner.start(self.conversation, AskFrame(KNOWN, "b"), language="fr")
        await told(self.runner, later)
        assert await start(self.runner, self.conversation, KNOWN) == fallen
        assert isinstance((await told(self.runner, fallen))[-1][1], Failure)

    async def test_leases_are_renewed_again_after_a_database_error(self) -> None:
        renewed = mock.Mock(side_effect=chain([OperationalError("locked")], repeat(None)))
        rest = threading.Event()
        with (
            scripted(ScriptedReply(pieces=["Un", " deux", " trois [1]."], rest=rest)),
            override(TURN_LEASE_SECONDS=0.15),
            mock.patch.object(runner_module, "renew_turns", renewed),
        ):
            turn_id = await start(self.runner, self.conversation, NEAR)
            await until(lambda: renewed.call_count > 1)
            rest.set()
            await told(self.runner, turn_id)

    async def test_turn_of_another_process_is_waited_for(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        elsewhere = Runner(EventLogs())
        with scripted(ScriptedReply(pieces=["Un", " deux [1]."], interval=0.1)), override(TURN_POLL_SECONDS=0.02):
            turn_id = await start(elsewhere, conversation, NEAR)
            last = await end_of(Runner(EventLogs()), turn_id)
        assert (last.status, last.content) == ("done", "Un deux [1].")

    async def test_answer_that_ends_late_takes_the_place_of_what_was_kept_of_it(self) -> None:
        with scripted(ScriptedReply(pieces=["Un", " deux [1]."], interval=0.1)):
            turn_id = await start(self.runner, self.conversation, NEAR)
            await in_database(Turn.objects.filter(pk=turn_id).update, status=TurnStatus.INTERRUPTED)
            await Message.objects.acreate(
                conversation=self.conversation, turn_id=turn_id, role=Role.ASSISTANT, content="Un"
            )
            last = await end_of(self.runner, turn_id)
        answer = await Message.objects.aget(turn=turn_id, role=Role.ASSISTANT)
        assert (answer.content, answer.pk) == ("Un deux [1].", last.message_id)

    @override(TURN_STOP_SECONDS=0.05, TURN_POLL_SECONDS=0.05)
    async def test_run_that_was_taken_over_stops_and_writes_nothing(self) -> None:
        with scripted(SLOW):
            turn_id = await begin(self.runner, self.conversation)
            rows = Turn.objects.filter(pk=turn_id)
            await in_database(rows.update, run=1)
            await asyncio.wait([self.runner._tasks[turn_id]], timeout=PATIENCE_SECONDS)
            turn = await rows.aget()
        assert turn.status == TurnStatus.RUNNING
        assert not await Message.objects.filter(role=Role.ASSISTANT).aexists()

    @override(TURN_POLL_SECONDS=0.05)
    async def test_reader_of_a_run_that_was_taken_over_is_told_the_other(self) -> None:
        here, there = Runner(EventLogs()), Runner(EventLogs())
        conversation = await in_database(make_conversation, self.deployment)
        slow = ScriptedReply(pieces=["Trop", " tard"], rest=threading.Event())
        with scripted(slow, ["La ", "réponse [1]."]):
            turn_id = await start(here, conversation, NEAR)
            reader = asyncio.create_task(told(here, turn_id))
            await begun(here, turn_id)
            rows = Turn.objects.filter(pk=turn_id)
            await in_database(rows.update, status=TurnStatus.INTERRUPTED)
            await there.retry(await rows.aget(), language="fr")
            events = await reader
        last = events[-1][1]
        assert isinstance(last, Done)
        assert (last.status, last.content) == ("done", "La réponse [1].")
        assert [m.content async for m in Message.objects.filter(role=Role.ASSISTANT)] == ["La réponse [1]."]

    @override(TURN_POLL_SECONDS=0.05)
    async def test_answer_whose_saving_was_not_acknowledged_is_told_from_its_rows(self) -> None:
        tries = iter([OperationalError("connection lost")])

        def saved_unknown_to_the_caller(**ending: Any) -> int | None:
            message_id = save_exchange(**ending)
            for error in tries:
                raise error
            return message_id

        with mock.patch("chat.turn.path.save_exchange", saved_unknown_to_the_caller):
            turn_id = await start(self.runner, self.conversation, KNOWN)
            last = await end_of(self.runner, turn_id)
        assert (last.status, last.answer_source) == ("done", "direct_qa")

    async def test_answer_that_cannot_be_saved_ends_in_an_error_that_says_so(self) -> None:
        with mock.patch("chat.turn.path.save_exchange", side_effect=OperationalError("disk full")):
            events = await told(self.runner, await start(self.runner, self.conversation, KNOWN))
        last = events[-1][1]
        assert isinstance(last, Failure)
        assert last.code == "answer_not_saved"

    async def test_answer_is_saved_once_the_database_is_back(self) -> None:
        tries = iter([OperationalError("locked"), None])

        def hiccup(**ending: Any) -> int | None:
            if (error := next(tries)) is not None:
                raise error
            return save_exchange(**ending)

        with mock.patch("chat.turn.path.save_exchange", hiccup):
            last = await end_of(self.runner, await start(self.runner, self.conversation, KNOWN))
        assert last.message_id is not None

    async def test_answer_that_cannot_be_put_into_memory_is_given_and_said_in_the_log(self) -> None:
        overlay = {"memory_learning": "valid", "memory_threshold": 0.7}
        await in_database(Deployment.objects.update, config_overlay=overlay)
        full = mock.patch.object(CachedResponse, "save", side_effect=OperationalError("disk full"))
        with (
            scripted(["Elles se réservent à l'accueil [1]."]),
            full as saving,
            self.assertLogs("chat.runs.afterwards", "WARNING") as logged,
        ):
            turn_id = await start(self.runner, self.conversation, NEAR)
            last = await end_of(self.runner, turn_id)
            await _settle()
        assert last.status == "done"
        saving.assert_called()
        [line] = logged.output
        assert str(turn_id) in line
        assert "disk full" in line
        assert not await CachedResponse.objects.aexists()
        assert await Message.objects.filter(turn=turn_id, role=Role.ASSISTANT).aexists()

    async def test_clock_that_moves_forward_takes_a_running_turn_for_dead_and_loses_nothing(self) -> None:
        with scripted(ScriptedReply(pieces=["Un", " deux", " trois [1]."], interval=0.2)):
            turn_id = await start(self.runner, self.conversation, NEAR)
            with clock_moved(timedelta(hours=1)):
                assert await in_database(interrupt_stale_turns) == 1
            await end_of(self.runner, turn_id)
        turn = await Turn.objects.aget(pk=turn_id)
        answer = await Message.objects.aget(turn=turn_id, role=Role.ASSISTANT)
        assert (turn.status, answer.content) == (TurnStatus.DONE, "Un deux trois [1].")

    async def test_clock_that_moves_back_holds_a_dead_turn_s_conversation_for_as_much_longer(self) -> None:
        await self.dead_turn()
        with clock_moved(-timedelta(hours=1)), pytest.raises(TurnRunningError):
            await start(self.runner, self.conversation, KNOWN)
        last = await end_of(self.runner, await start(self.runner, self.conversation, KNOWN))
        assert last.status == "done"

    async def test_question_to_a_deleted_conversation_is_refused_by_name(self) -> None:
        gone = await in_database(make_conversation, self.deployment)
        await in_database(Conversation.objects.filter(pk=gone.pk).delete)
        with pytest.raises(ConversationNotFoundError):
            await start(Runner(), gone, KNOWN)

    async def test_title_of_the_model_comes_after_the_answer_and_delays_it_by_nothing(self) -> None:
        await in_database(_generate_titles, self.deployment)
        rest = threading.Event()
        with scripted(["La réponse [1]."], ScriptedReply(pieces=["Salles", " de travail"], rest=rest)):
            turn_id = await start(self.runner, self.conversation, NEAR)
            await end_of(self.runner, turn_id)
            named_at_once = await Conversation.objects.aget(pk=self.conversation.pk)
            rest.set()
            await _settle()
        await self.conversation.arefresh_from_db()
        assert named_at_once.title != self.conversation.title
        assert self.conversation.title == "Salles de travail"
        assert (await Turn.objects.aget(pk=turn_id)).llm_calls == 2

    async def test_later_answer_names_nothing(self) -> None:
        with scripted(["La réponse [1]."], ["Une autre [1]."]):
            await told(self.runner, await start(self.runner, self.conversation, NEAR))
            await _settle()
            await in_database(_generate_titles, self.deployment)
            later = "Comment se réservent les petites salles de travail de la bibliothèque ?"
            turn_id = await self.runner.start(self.conversation, AskFrame(later, "b"), language="fr")
            await told(self.runner, turn_id)
            await _settle()
            model().assert_exhausted()
        await self.conversation.arefresh_from_db()
        assert self.conversation.title == default_title(NEAR)

    async def test_name_that_a_person_gave_meanwhile_is_kept(self) -> None:
        await in_database(_generate_titles, self.deployment)
        rest = threading.Event()
        with scripted(["La réponse [1]."], ScriptedReply(pieces=["Du", " modèle"], rest=rest)):
            await told(self.runner, await start(self.runner, self.conversation, NEAR))
            await in_database(Conversation.objects.filter(pk=self.conversation.pk).update, title="De moi")
            rest.set()
            await _settle()
        await self.conversation.arefresh_from_db()
        assert self.conversation.title == "De moi"


#: Its end never comes by itself.
SLOW = ScriptedReply(pieces=["Un", " deux [1]."], rest=threading.Event())


async def begin(runner: Runner, conversation: Conversation) -> uuid.UUID:
    """Start a turn, and wait for its first text."""
    turn_id = await start(runner, conversation, NEAR)
    await begun(runner, turn_id)
    return turn_id


async def begun(runner: Runner, turn_id: uuid.UUID) -> None:
    """Wait for the first text of a turn."""
    async for _number, event in runner.follow(turn_id):
        if isinstance(event, Delta):
            return


@override(TURN_STOP_SECONDS=0.05, TURN_POLL_SECONDS=0.05)
class OtherProcessTests(LibraryCase):
    """Two runners on one database know of each other as two processes do."""

    def setUp(self) -> None:
        self.owner, self.other = Runner(EventLogs()), Runner(EventLogs())
        self.conversation = make_conversation(self.deployment)

    async def test_turn_of_a_conversation_deleted_elsewhere_is_stopped(self) -> None:
        with scripted(SLOW):
            turn_id = await begin(self.owner, self.conversation)
            await in_database(Conversation.objects.filter(pk=self.conversation.pk).delete)
            await told(self.owner, turn_id)

    async def test_answer_that_ended_elsewhere_is_told_whole_to_a_reader_that_saw_part(self) -> None:
        turn_id = await start(self.owner, self.conversation, KNOWN)
        here = await told(self.owner, turn_id)
        there = await told(self.other, turn_id, after=2)
        assert [event.name for _number, event in there] == ["meta", "sources", "delta", "done"]
        assert there[2][1] == here[2][1]


class RetryTests(RunnerCase):
    async def interrupted(self) -> Turn:
        with scripted(SLOW):
            turn_id = await begin(self.runner, self.conversation)
            self.runner.stop(self.conversation.pk)
            await told(self.runner, turn_id)
        return await Turn.objects.aget(pk=turn_id)

    async def retry(self, turn: Turn) -> list[NumberedEvent]:
        return await told(self.runner, await self.runner.retry(turn, language="fr"))

    async def test_interrupted_turn_runs_again_with_one_question_and_one_answer(self) -> None:
        turn = await self.interrupted()
        assert await Message.objects.acount() == 2
        with scripted(["La ", "réponse [1]."]):
            events = await self.retry(turn)
        last = events[-1][1]
        assert isinstance(last, Done)
        assert (last.status, last.content) == ("done", "La réponse [1].")
        messages = [(m.role, m.content) async for m in Message.objects.all()]
        assert messages == [(Role.USER, NEAR), (Role.ASSISTANT, "La réponse [1].")]
        assert events[0][0] == EVENTS_PER_RUN + 1

    async def test_verdict_on_what_was_interrupted_is_not_one_on_the_new_answer(self) -> None:
        turn = await self.interrupted()
        await in_database(give_feedback, turn, Verdict.DOWN)
        with scripted(["La ", "réponse [1]."]):
            await self.retry(turn)
        assert not await Feedback.objects.aexists()

    async def test_message_sent_again_after_an_interruption_gives_that_turn_with_its_end(self) -> None:
        turn = await self.interrupted()
        again = await start(self.runner, self.conversation, NEAR)
        last = await end_of(self.runner, again)
        assert again == turn.pk
        assert last.status == "interrupted"

    async def test_two_that_retry_and_whoever_comes_later_get_the_same_run(self) -> None:
        turn = await self.interrupted()
        with scripted(["La ", "réponse [1]."]):
            first, second = await asyncio.gather(self.retry(turn), self.retry(turn))
            later = await self.retry(turn)
        assert first[-1] == second[-1] == later[-1]
        assert await Message.objects.acount() == 2

    async def test_question_that_the_conversation_left_behind_is_not_run_again(self) -> None:
        turn = await self.interrupted()
        following = await self.runner.start(self.conversation, AskFrame(KNOWN, "b"), language="fr")
        await told(self.runner, following)
        with pytest.raises(TurnNotLastError):
            await self.runner.retry(turn, language="fr")
        await turn.arefresh_from_db()
        assert turn.status == TurnStatus.INTERRUPTED


class DrainTests(RunnerCase):
    async def test_turn_that_takes_longer_is_stopped_with_its_text(self) -> None:
        with scripted(SLOW):
            turn_id = await begin(self.runner, self.conversation)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.runner.drain(0.2)
            last = await end_of(self.runner, turn_id)
        assert last.status == "interrupted"
        assert last.content.startswith("Un")

    async def test_process_that_is_ending_refuses_a_question_by_name_and_ends_the_running_one(self) -> None:
        with scripted(ScriptedReply(pieces=["Un", " deux", " trois [1]."], interval=0.1)):
            turn_id = await start(self.runner, self.conversation, NEAR)
            draining = asyncio.create_task(self.runner.drain(10))
            await asyncio.sleep(0.05)
            with pytest.raises(ServerStoppingError):
                await start(self.runner, self.conversation, NEAR)
            await draining
            last = await end_of(self.runner, turn_id)
        assert (last.status, last.content) == ("done", "Un deux trois [1].")


def _generate_titles(deployment: Deployment) -> None:
    deployment.config_overlay = {"generate_titles": True}
    deployment.save()


async def _settle() -> None:
    """Wait for what goes on after an answer."""
    while tasks := [task for task in asyncio.all_tasks() if _is_of_a_turn(task.get_name())]:
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_of_a_turn(name: str) -> bool:
    return name.startswith(("turn-", "settling-")) and name != "turn-heartbeat"


class AfterwardsTests(RunnerCase):
    @override_settings(AFTERWARDS_DELAY_SECONDS=60.0)
    async def test_what_a_turn_teaches_is_kept_when_the_server_stops_and_nothing_of_a_deleted_conversation(
        self,
    ) -> None:
        gone = await in_database(make_conversation, self.deployment)
        for conversation in (self.conversation, gone):
            await told(self.runner, await start(self.runner, conversation, FAR))
        await asyncio.sleep(0)
        await in_database(Conversation.objects.filter(pk=gone.pk).delete)
        await self.runner.drain()
        assert await UnansweredQuestion.objects.acount() == 1

    async def test_question_asked_again_within_ten_minutes_marks_those_before(self) -> None:
        other = "Où est la bibliothèque ?"
        same = "horaires d’ouverture de la bibliothèque"
        for minutes, question in ((11, KNOWN), (9, same), (8, other), (7, KNOWN)):
            turn = await in_database(make_exchange, self.conversation, question, "…")
            asked_at = timezone.now() - timedelta(minutes=minutes)
            await Turn.objects.filter(pk=turn.pk).aupdate(started_at=asked_at)
        # A follow-up of the same words may be about something else.
        await Turn.objects.filter(pk=turn.pk).aupdate(trace=[{"step": "standalone", "outcome": "follow_up"}])
        await told(self.runner, await start(self.runner, self.conversation, KNOWN))
        await self.runner.drain()
        marked = Turn.objects.order_by("started_at").values_list("asked_again", flat=True)
        assert [each async for each in marked] == [False, True, False, False, False]


class DeletedMeanwhileTests(TransactionTestCase):
    """A conversation that is deleted while something of its turn is being kept."""

    def test_nothing_is_kept_of_a_conversation_that_is_deleted_meanwhile(self) -> None:
        turn = make_exchange(make_conversation(), FAR, "Je ne sais pas.")
        model = embedder()
        vector = model.embed_one(FAR, purpose=Purpose.QUERY)
        agent_id = turn.conversation.deployment.agent_id
        question = Unanswered(agent_id, FAR, vector, model.recipe, UnansweredReason.REFUSED, None)
        deleting = threading.Thread(target=self.delete)

        def while_it_is_deleted(turn_id: uuid.UUID) -> list[uuid.UUID]:
            deleting.start()
            deleting.join(timeout=0.3)
            return []

        with mock.patch("chat.runs.afterwards.earlier_versions", while_it_is_deleted):
            _keep_question(turn.pk, question)
        deleting.join()
        assert not Conversation.objects.exists()
        assert not UnansweredQuestion.objects.exists()

    def delete(self) -> None:
        try:
            Conversation.objects.get().delete()
        finally:
            connection.close()
