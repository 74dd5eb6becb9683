"""Questions without an answer are kept at the end of a turn, once."""

from django.test import TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import Conversation, Verdict
from chat.thread.verdicts import give_feedback
from faqs.models import UnansweredQuestion, UnansweredReason
from tests.factories import make_conversation, make_library
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, ask, scripted


class KeepingTests(TestCase):
    def setUp(self) -> None:
        self.deployment: Deployment = make_library()

    async def kept(self) -> list[tuple[str, str]]:
        rows = UnansweredQuestion.objects.order_by("pk").values_list("question", "reason")
        return await in_database(lambda: list(rows))

    async def test_refused_question_is_kept_and_an_answered_one_is_not(self) -> None:
        await ask(self.deployment, KNOWN)
        await ask(self.deployment, FAR)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_question_asked_again_in_its_place_counts_once(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        for _ in range(3):
            turn = await conversation.turns.order_by("-started_at").afirst()
            await ask(self.deployment, FAR, conversation, replaces=turn.pk if turn else None)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_edited_question_counts_beside_the_first(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        await ask(self.deployment, FAR, conversation)
        first = await conversation.turns.aget()
        await ask(self.deployment, f"{FAR} papaye ?", conversation, replaces=first.pk)
        assert len(await self.kept()) == 2

    async def test_thumbs_down_on_every_version_count_once(self) -> None:
        conversation = await in_database(make_conversation, self.deployment)
        await ask(self.deployment, KNOWN, conversation)
        first = await conversation.turns.aget()
        await ask(self.deployment, KNOWN, conversation, replaces=first.pk)
        async for turn in conversation.turns.all():
            await in_database(give_feedback, turn, Verdict.DOWN)
        assert await self.kept() == [(KNOWN, UnansweredReason.REPORTED)]

    async def test_poor_passages_count_as_unanswered_from_the_threshold_on(self) -> None:
        result, _ = await ask(self.deployment, NEAR)
        best = result.answer.best_score or 0
        await in_database(UnansweredQuestion.objects.all().delete)
        for threshold, expected in ((best, []), (best + 0.01, [UnansweredReason.LOW_SCORE])):
            self.deployment.config_overlay = {"unanswered_threshold": threshold}
            await self.deployment.asave()
            await ask(self.deployment, NEAR)
            assert [reason for _question, reason in await self.kept()] == expected

    async def test_model_answer_on_poor_passages_is_kept_too(self) -> None:
        self.deployment.config_overlay = {"unanswered_threshold": 1.0}
        await self.deployment.asave()
        with scripted(["Je ne sais pas."]):
            await ask(self.deployment, NEAR)
        assert len(await self.kept()) == 1

    async def test_setting_switches_it_off(self) -> None:
        self.deployment.config_overlay = {"record_unanswered": False}
        await self.deployment.asave()
        await ask(self.deployment, FAR)
        assert await self.kept() == []

    async def test_deleted_conversation_takes_its_questions_along(self) -> None:
        await ask(self.deployment, FAR)
        await in_database(Conversation.objects.all().delete)
        assert await self.kept() == []
