"""The memory in the path of a question, also of several agents; and questions that are kept for want of an answer."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.test import TestCase, override_settings
from django.utils import timezone

from agents.database import in_database
from agents.errors import LLMUnavailableError
from agents.models import Agent, Specialist
from chat.models import AnswerSource, Message, MessageType, Turn, Verdict
from chat.protocol import Sources
from chat.runs.afterwards import settle
from chat.thread.verdicts import give_feedback
from chat.turn.path import run_turn
from chat.turn.stored_answers import MEMORY_MODEL
from faqs.answer_points import sync_learned
from faqs.answers import save_learned, set_status
from faqs.models import (
    CachedResponse,
    EntryStatus,
    LearnedResponse,
    LearnedStatus,
    UnansweredQuestion,
    UnansweredReason,
)
from knowledge.models import Chunk
from tests.factories import (
    make_conversation,
    make_entry,
    make_exchange,
    make_learned,
    make_library,
    set_settings,
    source_of,
)
from tests.integration.chat.turn.test_dispatch import POOL_QUESTION, make_two_agents
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, Listener, ask, claimed, model, scripted, steps
from tests.readers import LibraryCase

OPEN = "Quels sont les horaires de la piscine ?"
WRITTEN = "Elles se réservent à l'accueil [1]."


class MemoryTurnTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library(config_overlay={"memory_threshold": 0.7, "memory_learning": "valid"})
        self.conversation = make_conversation(self.deployment)

    async def test_stored_answer_is_given_without_search_or_model_call(self) -> None:
        chunk = await in_database(Chunk.objects.earliest, "pk")
        await in_database(make_entry, self.deployment, sources=[source_of(chunk)])
        with scripted():
            result, listener = await ask(self.deployment, OPEN)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.MEMORY_GUARD
        assert (result.answer.model, result.answer.llm_calls) == (MEMORY_MODEL, 0)
        assert listener.text == "De 9 heures à 20 heures."
        assert [*steps(result)] == ["receive", "reading", "standalone", "embedding", "memory_guard", "save"]
        assert steps(result)["memory_guard"] == "respond_from_memory"
        assert isinstance(listener.events[0], Sources)
        asked, saved = [m async for m in Message.objects.select_related("turn").order_by("pk")]
        assert (asked.type, saved.type) == (MessageType.USER_REQUEST, MessageType.CACHED_RESPONSE)
        assert saved.sources[0]["chunk_id"] == chunk.pk

    async def test_answer_of_the_model_is_learned_and_given_the_next_time(self) -> None:
        with scripted(WRITTEN):
            first, _ = await ask(self.deployment, NEAR)
            second, listener = await ask(self.deployment, NEAR)
            model().assert_exhausted()
        assert first.answer.source == AnswerSource.LLM
        assert steps(first)["learn"] == "stored"
        stored = await Turn.objects.order_by("started_at").afirst()
        assert stored is not None
        line = next(line for line in stored.trace if line["step"] == "learn")
        entry = await CachedResponse.objects.aget()
        assert (line["outcome"], line["entry"]) == ("stored", entry.pk)
        assert second.answer.source == AnswerSource.MEMORY_GUARD
        assert listener.text == WRITTEN
        assert second.answer.sources == [each for each in first.answer.sources if each["n"] == 1]

    async def test_answer_judged_wrong_before_it_was_learned_is_given_to_nobody(self) -> None:
        request = await in_database(claimed, self.conversation, NEAR)
        with scripted(WRITTEN):
            result = await run_turn(request, Listener())
        turn = await self.conversation.turns.aget()
        await in_database(give_feedback, turn, Verdict.DOWN)
        await settle(request, result)
        entry = await CachedResponse.objects.aget()
        assert (entry.status, entry.status_reason) == (EntryStatus.TO_REVIEW, "reported")
        with scripted("À l’accueil [1]."):
            again, _ = await ask(self.deployment, NEAR)
        assert again.answer.source == AnswerSource.LLM

    async def test_second_key_refuses_in_the_trace_with_its_reason(self) -> None:
        stored = "Combien coûte la carte de lecteur de la bibliothèque en 2023 ?"
        await in_database(make_entry, self.deployment, stored, "10 euros.")
        result, _ = await ask(self.deployment, stored.replace("2023", "2024"))
        assert steps(result)["memory_guard"] == "refused"
        (line,) = [line for line in result.trace.lines if line["step"] == "memory_guard"]
        [refused] = line["refused"]
        assert (refused["question"], refused["clashes"]) == (stored, [["date", "2023", "2024"]])

    async def test_follow_up_neither_uses_nor_feeds_the_memory(self) -> None:
        await in_database(make_entry, self.deployment, "Et la piscine ?", "De 9 à 20 h.")
        await in_database(make_exchange, self.conversation, NEAR, WRITTEN)
        with scripted("Non.", WRITTEN):
            result, _ = await ask(self.deployment, "Et pour les salles de travail ?", self.conversation)
        assert steps(result)["memory_guard"] == "follow_up"
        assert steps(result)["learn"] == "not_kept"
        assert await CachedResponse.objects.acount() == 1

    async def test_answer_after_other_exchanges_waits_for_staff(self) -> None:
        await in_database(make_exchange, self.conversation, OPEN, "De 9 à 20 h.")
        with scripted(WRITTEN):
            await ask(self.deployment, NEAR, self.conversation)
        entry = await CachedResponse.objects.aget()
        assert (entry.status, entry.status_reason) == (EntryStatus.TO_REVIEW, "in_context")

    async def test_refusals_quotes_direct_answers_and_failures_are_not_learned(self) -> None:
        for question in (FAR, NEAR, KNOWN):
            await ask(self.deployment, question)
        with scripted("Je ne sais pas.", LLMUnavailableError("down")):
            for _ in range(2):
                result, _listener = await ask(self.deployment, NEAR)
                assert steps(result)["learn"] == "not_kept"
        assert not await CachedResponse.objects.aexists()

    async def test_unknown_embedding_model_gives_nothing_from_memory(self) -> None:
        self.deployment.config_overlay = {}
        await self.deployment.asave()
        await in_database(make_entry, self.deployment)
        result, _ = await ask(self.deployment, OPEN)
        assert steps(result)["memory_guard"] == "off"
        with override_settings(MEMORY_SIMILARITY_THRESHOLD=0.7):
            result, _ = await ask(self.deployment, OPEN)
        assert result.answer.source == AnswerSource.MEMORY_GUARD


class LearningFromValidatedAnswersTests(TestCase):
    """A validated answer among the passages is an origin like any other, if the answer cites it."""

    def setUp(self) -> None:
        self.deployment = make_library(config_overlay={"memory_threshold": 0.7, "memory_learning": "valid"})
        self.row = make_learned(
            self.deployment.agent,
            question="Comment se réservent les salles de réunion de la bibliothèque ?",
            answer="Par téléphone.",
        )

    def number(self, sources: list[dict[str, Any]]) -> int:
        return next(int(each["n"]) for each in sources if each.get("learned_id") == self.row.pk)

    async def learned(self, write: Callable[[int], str]) -> CachedResponse:
        """What is kept of an answer that the model writes, given the number of the validated answer."""
        with scripted("Cela ne se réserve pas."):
            result, _ = await ask(self.deployment, NEAR)
        number = self.number(result.answer.sources)
        await CachedResponse.objects.all().adelete()
        with scripted(write(number)):
            await ask(self.deployment, NEAR)
        return await CachedResponse.objects.aget()

    async def test_answer_that_does_not_cite_it_is_learned_and_not_followed(self) -> None:
        entry = await self.learned(lambda number: f"À l'accueil [{2 if number == 1 else 1}].")
        assert entry.status == EntryStatus.VALID
        assert not await entry.origins.exclude(learned=None).aexists()
        assert [source["n"] for source in entry.sources] != []
        self.row.answer = "Sur place."
        await in_database(save_learned, self.row)
        await in_database(sync_learned, [self.row.pk])
        await entry.arefresh_from_db()
        assert entry.status == EntryStatus.VALID

    async def test_answer_that_cites_it_goes_to_review_once_it_changes(self) -> None:
        entry = await self.learned(lambda number: f"Par téléphone [{number}].")
        assert (entry.status, await entry.origins.exclude(learned=None).acount()) == (EntryStatus.VALID, 1)
        with scripted():
            given, _ = await ask(self.deployment, NEAR)
        assert given.answer.source == AnswerSource.MEMORY_GUARD
        # The row alone: what is served does not wait for anything to follow it.
        await LearnedResponse.objects.filter(pk=self.row.pk).aupdate(answer="Sur place.")
        with scripted("Je ne sais pas."):
            given, _ = await ask(self.deployment, NEAR)
        assert given.answer.source == AnswerSource.LLM
        await entry.arefresh_from_db()
        assert (entry.status, entry.status_reason) == (EntryStatus.TO_REVIEW, "chunk_changed")

    async def test_answer_that_cites_it_goes_to_review_once_it_is_withdrawn(self) -> None:
        entry = await self.learned(lambda number: f"Par téléphone [{number}].")
        await in_database(set_status, [self.row], LearnedStatus.OBSOLETE)
        await in_database(sync_learned, [self.row.pk])
        await entry.arefresh_from_db()
        assert entry.status == EntryStatus.TO_REVIEW


FROM_MEMORY = "Gratuit, de mémoire."


class MemoryOfAgentsTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_two_agents()
        set_settings(memory_threshold=0.7)
        pool = Specialist.objects.get().agent
        self.pool = Agent.objects.filter(pk=pool.pk)
        self.default = Agent.objects.exclude(pk=pool.pk)
        chunk = Chunk.objects.filter(document__agent=pool).first()
        assert chunk is not None
        created_at = timezone.now() - timedelta(days=100)
        make_entry(self.deployment, POOL_QUESTION, FROM_MEMORY, sources=[source_of(chunk)], created_at=created_at)

    async def told(self, question: str = POOL_QUESTION) -> tuple[str, str]:
        result, listener = await ask(self.deployment, question)
        return result.answer.source, listener.text

    async def step(self, question: str = POOL_QUESTION) -> Any:
        result, _listener = await ask(self.deployment, question)
        return next(line for line in result.trace.lines if line["step"] == "memory_guard")

    async def test_strictest_agent_decides(self) -> None:
        assert await self.told() == (AnswerSource.MEMORY_GUARD, FROM_MEMORY)
        for agent in (self.pool, self.default):
            for name, value, was in (("memory_max_age_days", 30, 180), ("memory", False, True)):
                await in_database(set_settings, agent, **{name: value})
                assert (await self.told())[0] != AnswerSource.MEMORY_GUARD, name
                await in_database(set_settings, agent, **{name: was})
        await in_database(set_settings, self.pool, memory_threshold=0.95)
        assert (await self.step())["threshold"] == 0.95


class KeepingTests(LibraryCase):
    def setUp(self) -> None:
        self.conversation = make_conversation(self.deployment)

    async def kept(self) -> list[tuple[str, str]]:
        rows = UnansweredQuestion.objects.order_by("pk").values_list("question", "reason")
        return await in_database(lambda: list(rows))

    async def test_refused_question_is_kept_and_an_answered_one_is_not(self) -> None:
        for question in (KNOWN, NEAR, FAR):
            await ask(self.deployment, question)
        with scripted(["Le pont ferme à midi."]):
            await ask(self.deployment, NEAR)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_question_asked_again_in_its_place_counts_once(self) -> None:
        for _ in range(3):
            turn = await self.conversation.turns.order_by("-started_at").afirst()
            await ask(self.deployment, FAR, self.conversation, replaces=turn.pk if turn else None)
        assert await self.kept() == [(FAR, UnansweredReason.REFUSED)]

    async def test_edited_question_counts_beside_the_first(self) -> None:
        await ask(self.deployment, FAR, self.conversation)
        first = await self.conversation.turns.aget()
        await ask(self.deployment, f"{FAR} papaye ?", self.conversation, replaces=first.pk)
        assert len(await self.kept()) == 2

    async def test_thumbs_down_on_every_version_count_once(self) -> None:
        await ask(self.deployment, KNOWN, self.conversation)
        first = await self.conversation.turns.aget()
        await ask(self.deployment, KNOWN, self.conversation, replaces=first.pk)
        async for turn in self.conversation.turns.all():
            await in_database(give_feedback, turn, Verdict.DOWN)
        assert await self.kept() == [(KNOWN, UnansweredReason.REPORTED)]

    async def test_setting_switches_it_off(self) -> None:
        self.deployment.config_overlay = {"record_unanswered": False}
        await self.deployment.asave()
        await ask(self.deployment, FAR)
        assert await self.kept() == []
