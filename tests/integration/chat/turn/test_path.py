"""The path of a question: each exit, its trace, and what it stores."""

import asyncio
import uuid
from typing import Any
from unittest import mock

import pytest
from auditlog.models import LogEntry
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from agents.database import in_database
from agents.errors import LLMUnavailableError
from agents.llm.base import language_model
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import Delta, Done, Event, Sources
from chat.runs.afterwards import settle
from chat.runs.runner import read_turn
from chat.telemetry import masked
from chat.thread.turns import claim_turn
from chat.turn.memory import DIRECT_MODEL
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from knowledge.models import Chunk
from tests.factories import (
    add_document,
    make_agent,
    make_conversation,
    make_deployment,
    make_exchange,
    make_learned,
    make_library,
)
from tests.readers import LibraryCase
from tests.scripted import ScriptedLLM, ScriptedReply

KNOWN = "Quels sont les horaires d'ouverture de la bibliothèque ?"
NEAR = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"
#: Differs from a stored question by one plain word that no rule explains.
VERIFIABLE = "Combien coûte la carte de lecteur plastifiée ?"
FAR = "xylophone zygote kiwi ?"


def scripted(*replies: Any) -> override_settings:
    """Configure the scripted model with these replies."""
    backend = "tests.scripted.ScriptedLLM"
    return override_settings(LLMS={"default": {"BACKEND": backend, "OPTIONS": {"replies": replies}}})


def model() -> ScriptedLLM:
    found = language_model()
    assert isinstance(found, ScriptedLLM)
    return found


class Listener:
    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def done(self) -> Done:
        last = self.events[-1]
        assert isinstance(last, Done), last
        return last

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Delta))


async def ask(
    deployment: Deployment,
    question: str,
    conversation: Conversation | None = None,
    *,
    replaces: uuid.UUID | None = None,
    as_typed: bool = False,
) -> tuple[TurnResult, Listener]:
    if conversation is None:
        conversation = await in_database(make_conversation, deployment)
    claimed = await in_database(
        claim_turn,
        conversation_id=conversation.pk,
        client_message_id=str(uuid.uuid4()),
        question=question,
        replaces=replaces,
    )
    listener = Listener()
    request = TurnRequest(
        deployment_id=deployment.pk,
        question=question,
        language="fr",
        turn_id=claimed.turn_id,
        conversation_id=conversation.pk,
        user_id=conversation.user_id,
        is_first=claimed.is_first,
        as_typed=as_typed,
    )
    result = await run_turn(request, listener)
    await settle(request, result)
    return result, listener


class PathTests(LibraryCase):
    def setUp(self) -> None:
        self.conversation = make_conversation(self.deployment)

    def steps(self, result: TurnResult) -> dict[str, str]:
        return {line["step"]: line["outcome"] for line in result.trace.lines}

    async def test_known_question_gets_its_stored_answer_without_a_model_call(self) -> None:
        with scripted():
            result, listener = await ask(self.deployment, KNOWN)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert result.answer.model == DIRECT_MODEL
        assert "10 heures à 18 heures" in listener.text
        assert "Source : Bibliothèque municipale" in listener.text
        assert result.answer.llm_calls == 0

    async def test_journal_of_changes_costs_a_question_nothing(self) -> None:
        before = await LogEntry.objects.acount()
        with scripted(), mock.patch("agents.history._log_differences") as logged:
            await ask(self.deployment, KNOWN)
            await ask(self.deployment, FAR)
        assert not logged.called
        assert await LogEntry.objects.acount() == before

    async def test_guard_rail_refuses_without_a_model_call_and_saves_both_messages(self) -> None:
        with scripted():
            result, listener = await ask(self.deployment, FAR)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.GUARD_RAIL
        assert listener.text.startswith("Je n’ai rien trouvé à ce sujet.")
        assert await in_database(Message.objects.count) == 2

    async def test_answer_that_was_cut_says_so_and_is_not_learned(self) -> None:
        for finish, said in (("length", "coupée"), ("content_filter", "filtre")):
            with scripted(ScriptedReply(["À l'accueil [1]."], finish_reason=finish)):
                result, listener = await ask(self.deployment, NEAR)
            done = listener.done
            assert done.status == "done"
            assert said in done.as_json()["notice"]
            assert self.steps(result)["learn"] == "not_kept"
            turn = await in_database(Turn.objects.latest, "started_at")
            stored = await in_database(read_turn, turn.pk)
            assert stored.log is not None
            assert said in stored.log.events[-1].as_json()["notice"]

    async def test_source_says_when_its_document_was_read(self) -> None:
        result, _listener = await ask(self.deployment, KNOWN)
        assert result.answer.sources[0]["date"] == timezone.now().date().isoformat()

    async def test_refusal_offers_what_the_desk_answers_and_whom_to_ask(self) -> None:
        overlay = {"contact": "Écrivez à accueil@example.org."}
        await in_database(Deployment.objects.update, config_overlay=overlay)
        _result, listener = await ask(self.deployment, FAR)
        assert "Écrivez à accueil@example.org.\n\nVous pouvez me demander :" in listener.text
        done = listener.done
        assert done.as_json()["suggestions"] == [KNOWN, "Combien coûte la carte de lecteur ?"]

    async def test_refusal_names_the_passages_that_are_not_far(self) -> None:
        document = "# Badges\n\nLe badge du parking se retire à l’accueil du bâtiment le matin, sur rendez-vous.\n"
        deployment = await in_database(make_deployment, config_overlay={"guard_rail_threshold": 0.9})
        await in_database(add_document, deployment.agent, text=document)
        result, listener = await ask(deployment, "badge du parking à l’accueil le soir")
        assert result.answer.source == AnswerSource.GUARD_RAIL
        assert "Le plus proche dans les documents :\n\n- " in listener.text
        assert "[1]" in listener.text
        assert [source["n"] for source in result.answer.sources][:1] == [1]

    async def test_question_that_a_refusal_offers_is_answered_whatever_its_words(self) -> None:
        leaning = "Et combien coûte la salle ?"
        await in_database(make_learned, self.deployment.agent, question=leaning)
        _result, refusal = await ask(self.deployment, FAR, self.conversation)
        assert f"- {leaning}" in refusal.text
        result, _listener = await ask(self.deployment, leaning, self.conversation)
        assert result.answer.source == AnswerSource.DIRECT_QA

    async def test_refusal_that_staff_wrote_stands_as_it_is(self) -> None:
        overlay = {"guard_rail_message": "Demandez à l’accueil."}
        await in_database(Deployment.objects.update, config_overlay=overlay)
        _result, listener = await ask(self.deployment, FAR)
        assert listener.text == "Demandez à l’accueil."

    async def test_near_question_goes_to_the_model_with_numbered_passages(self) -> None:
        with scripted(["À l'", "accueil [1]", " et [9]."]):
            result, listener = await ask(self.deployment, NEAR)
            prompt = model().calls[0].messages[-1].content
        assert "[Source 1] - Bibliothèque municipale" in prompt
        assert prompt.endswith(NEAR)
        assert listener.text == "À l'accueil [1]."
        assert result.answer.source == AnswerSource.LLM

    async def test_without_a_model_the_best_passages_are_quoted_with_their_source(self) -> None:
        result, listener = await ask(self.deployment, NEAR)
        assert result.answer.source == AnswerSource.EXTRACTIVE
        assert "Les salles de travail se réservent" in listener.text
        assert result.answer.sources[0]["document_id"] is not None
        assert result.answer.llm_calls == 0

    async def test_number_that_differs_refuses_the_second_key(self) -> None:
        question = "Combien coûte la carte de lecteur en 2024 ?"
        result, _ = await ask(self.deployment, question)
        assert self.steps(result)["direct_answer"] == "second_key_refused"
        assert result.answer.source != AnswerSource.DIRECT_QA

    async def test_shadow_mode_traces_a_direct_answer_and_does_not_give_it(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"shadow_mode": True})
        result, _ = await ask(self.deployment, KNOWN)
        assert self.steps(result)["direct_answer"] == "shadow"
        assert result.answer.source == AnswerSource.EXTRACTIVE

    async def test_verifier_lets_a_refused_paraphrase_out(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"verify_answers": True})
        with scripted('{"same_answer": true}'):
            result, _ = await ask(self.deployment, VERIFIABLE)
            model().assert_exhausted()
        assert self.steps(result)["direct_answer"] == "verified"
        assert result.answer.llm_calls == 1
        assert result.answer.source == AnswerSource.DIRECT_QA

    async def test_verifier_is_off_by_default(self) -> None:
        result, _ = await ask(self.deployment, VERIFIABLE)
        assert self.steps(result)["direct_answer"] == "second_key_refused"

    async def test_follow_up_never_gets_a_direct_answer(self) -> None:
        await in_database(make_exchange, self.conversation, KNOWN, "De 10 à 18 heures.")
        result, _ = await ask(self.deployment, f"Et {KNOWN[0].lower()}{KNOWN[1:]}", self.conversation)
        assert self.steps(result)["standalone"] == "follow_up"
        assert result.answer.source != AnswerSource.DIRECT_QA
        asked = Message.objects.filter(role=Role.USER).select_related("turn").order_by("pk")
        assert [message.type async for message in asked] == ["user_request", "follow_up"]

    async def test_direct_answer_is_logged_with_its_agent_and_its_masked_question(self) -> None:
        with self.assertLogs("chat.telemetry", "INFO") as logs:
            result, _ = await ask(self.deployment, KNOWN)
        (line,) = [line for line in logs.output if "direct answer" in line]
        assert f"agent={self.deployment.agent.slug} score={result.answer.score:.4f}" in line
        assert f"question_matched={masked(KNOWN)}" in line
        assert KNOWN not in line

    async def follow_up_of_the_fees(self, question: str) -> tuple[TurnResult, Listener]:
        await in_database(make_exchange, self.conversation, "La carte de lecteur ?", "Elle se paie.")
        return await ask(self.deployment, question, self.conversation)

    async def test_follow_up_that_the_model_rewrote_may_have_a_direct_answer(self) -> None:
        with scripted("Combien coûte la carte de lecteur ?"):
            result, listener = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            model().assert_exhausted()
        steps = self.steps(result)
        assert (steps["standalone"], steps["rewriting"]) == ("follow_up", "rewritten")
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "12 euros" in listener.text
        assert result.answer.llm_calls == 1

    async def test_rewriting_that_brings_something_in_is_not_used(self) -> None:
        with scripted("Combien coûte la carte de lecteur pour 3 ans ?", "Je ne sais pas."):
            result, _ = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            model().assert_exhausted()
        assert self.steps(result)["rewriting"] == "rejected"
        assert self.steps(result)["direct_answer"] == "follow_up"
        assert result.answer.llm_calls == 2

    async def test_assent_that_the_model_rewrote_is_searched_so_and_given_no_stored_answer(self) -> None:
        with scripted("Combien coûte la carte de lecteur ?", "Douze euros."):
            result, _ = await self.follow_up_of_the_fees("oui, je veux bien")
            model().assert_exhausted()
        steps = self.steps(result)
        assert (steps["standalone"], steps["rewriting"]) == ("follow_up", "rewritten")
        assert steps["memory_guard"] == steps["direct_answer"] == "follow_up"

    async def test_follow_up_is_searched_as_it_was_typed_too(self) -> None:
        result, _ = await self.follow_up_of_the_fees(f"Dans ce cas, {KNOWN[0].lower()}{KNOWN[1:]}")
        assert self.steps(result)["standalone"] == "follow_up"
        assert result.answer.sources[0]["question"] == KNOWN

    async def test_plain_question_after_another_one_is_not_rewritten(self) -> None:
        with scripted():
            result, _ = await self.follow_up_of_the_fees(KNOWN)
            model().assert_exhausted()
        assert "rewriting" not in self.steps(result)
        assert result.answer.source == AnswerSource.DIRECT_QA

    async def test_every_exit_saves_one_question_one_answer_and_the_trace(self) -> None:
        for question in (KNOWN, FAR, NEAR):
            result, listener = await ask(self.deployment, question)
            done = listener.done
            assert done.message_id is not None
            message = await Message.objects.select_related("turn").aget(pk=done.message_id)
            assert (message.role, message.content) == (Role.ASSISTANT, result.answer.text)
            assert message.turn is not None
            assert message.turn.status == TurnStatus.DONE
            assert [line["step"] for line in message.turn.trace][-1] == "save"

    async def test_history_of_the_conversation_reaches_the_model(self) -> None:
        for number in range(5):
            await in_database(make_exchange, self.conversation, f"Question {number}", f"Réponse {number}")
        with scripted(["Oui."]):
            await ask(self.deployment, NEAR, self.conversation)
            contents = [message.content for message in model().calls[0].messages]
        assert contents[1:-1] == [f"{word} {number}" for number in (2, 3, 4) for word in ("Question", "Réponse")]

    async def test_model_that_fails_gives_way_to_the_quotation_and_is_told(self) -> None:
        with scripted(LLMUnavailableError("down")):
            result, listener = await ask(self.deployment, NEAR)
        done = listener.events[-1]
        assert isinstance(done, Done)
        assert (result.status, done.answer_source, done.cut) == (TurnStatus.DONE, "extractive", "llm_unavailable")
        assert "[1]" in done.content
        assert await in_database(Message.objects.filter(role=Role.USER).count) == 1

    async def test_stopped_turn_keeps_its_partial_text(self) -> None:
        reached = asyncio.Event()

        class Blocking(Listener):
            async def __call__(self, event: Event) -> None:
                await super().__call__(event)
                if isinstance(event, Delta):
                    reached.set()
                    await asyncio.sleep(60)

        claimed = await in_database(
            claim_turn, conversation_id=self.conversation.pk, client_message_id="a", question=NEAR
        )
        request = TurnRequest(
            deployment_id=self.deployment.pk,
            question=NEAR,
            language="fr",
            turn_id=claimed.turn_id,
            conversation_id=self.conversation.pk,
        )
        with scripted(["Un début", " puis la suite"]):
            task = asyncio.create_task(run_turn(request, Blocking()))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        turn = await Turn.objects.aget(pk=claimed.turn_id)
        answer = await Message.objects.aget(turn=turn, role=Role.ASSISTANT)
        assert (turn.status, answer.content) == (TurnStatus.INTERRUPTED, "Un début")

    @override_settings(TURN_TIMEOUT_SECONDS=0.05)
    async def test_turn_that_takes_too_long_fails_by_name(self) -> None:
        async def slow(*_args: Any, **_kwargs: Any) -> None:
            await asyncio.sleep(5)

        with mock.patch("chat.turn.dispatch._search", slow):
            result, _ = await ask(self.deployment, KNOWN)
        assert result.error is not None
        assert result.error.code == "turn_timeout"

    async def test_deleted_chunk_stops_answering_at_once(self) -> None:
        await in_database(Chunk.objects.filter(content__contains="10 heures").delete)
        result, _ = await ask(self.deployment, KNOWN)
        assert "10 heures" not in result.answer.text

    async def test_sources_come_before_the_text(self) -> None:
        _, listener = await ask(self.deployment, KNOWN)
        kinds = [type(event) for event in listener.events]
        assert kinds == [Sources, Delta, Done]

    async def test_missing_index_is_said_clearly(self) -> None:
        empty = await in_database(lambda: make_deployment(make_agent()))
        result, _ = await ask(empty, KNOWN)
        assert result.error is not None
        assert result.error.code == "collection_missing"

    async def test_legacy_overlay_answers_from_its_own_index(self) -> None:
        legacy = await in_database(lambda: make_library(config_overlay={"indexing_method": "legacy"}))
        result, _ = await ask(legacy, KNOWN)
        assert {source["type"] for source in result.answer.sources} == {"legacy"}
        assert result.answer.sources[0]["chunk_id"] is not None
        assert settings.VECTOR_STORES
