"""What a turn has yet to leave behind stands in its row: kept by a worker where its process was killed after the
answer.
"""

import threading
import uuid
from datetime import timedelta
from functools import partial
from unittest import mock

from django.db import connection
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from agents.database import in_database
from chat.models import Conversation, Turn
from chat.runs.afterwards import UNSETTLED_SECONDS, _keep_of, settle, settle_left_behind
from chat.thread.turns import claim_turn
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from faqs.models import CachedResponse, EntryStatus, UnansweredQuestion, UnansweredReason
from faqs.unanswered import Unanswered, keep_unanswered
from knowledge.embeddings.base import Purpose, embedder
from knowledge.errors import EmbeddingUnavailableError
from tests.factories import make_conversation, make_exchange, make_library
from tests.integration.chat.turn.test_memory_turn import NEAR, WRITTEN
from tests.integration.chat.turn.test_path import FAR, Listener, scripted

LATER = timedelta(seconds=UNSETTLED_SECONDS + 1)


class LeftBehindTests(TestCase):
    conversation: Conversation

    @classmethod
    def setUpTestData(cls) -> None:
        overlay = {"memory_threshold": 0.7, "memory_learning": "valid"}
        cls.conversation = make_conversation(make_library(config_overlay=overlay))

    async def _answered(self, question: str = NEAR) -> tuple[TurnRequest, TurnResult]:
        """A turn whose process is killed as soon as the answer is saved."""
        claimed = await in_database(
            claim_turn, conversation_id=self.conversation.pk, client_message_id="a", question=question
        )
        request = TurnRequest(
            deployment_id=self.conversation.deployment_id,
            question=question,
            language="fr",
            turn_id=claimed.turn_id,
            conversation_id=self.conversation.pk,
            is_first=True,
        )
        with scripted(WRITTEN):
            return request, await run_turn(request, Listener())

    def _look(self) -> int:
        with mock.patch.object(timezone, "now", return_value=timezone.now() + LATER):
            return settle_left_behind()

    async def test_lesson_of_a_killed_process_is_kept_once(self) -> None:
        request, result = await self._answered()
        assert await in_database(settle_left_behind) == 0  # Its own process may still come to it.
        assert await in_database(self._look) == 1
        entry = await CachedResponse.objects.aget()
        assert (entry.question, entry.answer, entry.status) == (NEAR, WRITTEN, EntryStatus.VALID)
        assert result.learning is not None
        lesson = result.learning.lesson
        assert entry.sources
        assert (entry.source_turn, entry.language) == (request.turn_id, "fr")
        assert entry.embedding == lesson.vector.astype("<f4").tobytes()
        turn = await Turn.objects.aget()
        [learned] = [line for line in turn.trace if line["step"] == "learn"]
        assert (learned["outcome"], turn.unsettled) == ("stored", "")
        assert await in_database(self._look) == 0
        # The process lived after all.
        await settle(request, result)
        assert await CachedResponse.objects.acount() == 1

    async def test_what_was_kept_in_time_is_left_to_nobody(self) -> None:
        request, result = await self._answered()
        await settle(request, result)
        assert await in_database(self._look) == 0
        assert await CachedResponse.objects.acount() == 1

    async def test_question_without_an_answer_is_kept(self) -> None:
        await self._answered(FAR)
        assert await in_database(self._look) == 1
        kept = await UnansweredQuestion.objects.aget()
        assert (kept.question, kept.vector != b"") == (FAR, True)

    async def test_temporary_conversation_leaves_nothing(self) -> None:
        await Conversation.objects.aupdate(is_temporary=True)
        await self._answered()
        await in_database(self._look)
        assert not await CachedResponse.objects.aexists()
        assert (await Turn.objects.aget()).unsettled == ""

    async def test_trouble_leaves_it_for_later_and_what_cannot_be_read_is_said(self) -> None:
        await self._answered()
        trouble = mock.patch("chat.turn.values.embedder", side_effect=EmbeddingUnavailableError("away"))
        with trouble, self.assertLogs("chat.runs.afterwards", "WARNING"):
            await in_database(self._look)
        assert (await Turn.objects.aget()).unsettled
        await Turn.objects.aupdate(unsettled='{"lesson": {"of": "another version"}}')
        with self.assertLogs("chat.runs.afterwards", "ERROR"):
            await in_database(self._look)
        assert (await Turn.objects.aget()).unsettled == ""


class DeletedMeanwhileTests(TransactionTestCase):
    """A conversation that is deleted while something of its turn is being kept."""

    def setUp(self) -> None:
        self.conversation = make_conversation()
        self.turn = make_exchange(self.conversation, FAR, "Je ne sais pas.")
        model = embedder()
        vector = model.embed_one(FAR, purpose=Purpose.QUERY)
        agent_id = self.conversation.deployment.agent_id
        question = Unanswered(agent_id, FAR, vector, model.recipe, UnansweredReason.REFUSED, None)
        self.keep = partial(keep_unanswered, question)

    def test_nothing_is_kept_of_a_conversation_that_is_deleted_meanwhile(self) -> None:
        deleting = threading.Thread(target=self.delete)

        def while_it_is_deleted(turn_id: uuid.UUID) -> list[uuid.UUID]:
            deleting.start()
            deleting.join(timeout=0.3)
            return []

        with mock.patch("chat.runs.afterwards.earlier_versions", while_it_is_deleted):
            _keep_of(self.turn.pk, self.keep)
        deleting.join()
        assert not Conversation.objects.exists()
        assert not UnansweredQuestion.objects.exists()

    def test_nothing_is_kept_of_a_conversation_that_is_gone(self) -> None:
        self.conversation.delete()
        _keep_of(self.turn.pk, self.keep)
        assert not UnansweredQuestion.objects.exists()

    def delete(self) -> None:
        try:
            Conversation.objects.get(pk=self.conversation.pk).delete()
        finally:
            connection.close()
