"""The path of a question: each exit, its trace, what it stores, and what is shown of a passage."""

import asyncio
import threading
import uuid
from dataclasses import replace
from typing import Any
from unittest import mock

from django.test import TestCase, override_settings

from agents.database import in_database
from agents.errors import LLMUnavailableError
from agents.llm.base import language_model
from agents.models import Deployment
from chat.errors import IsolationError
from chat.models import AnswerSource, Conversation, Message, Role, Turn, TurnStatus
from chat.protocol import Delta, Done, Event
from chat.runs.afterwards import settle
from chat.runs.runner import read_turn
from chat.thread.turns import claim_turn
from chat.turn.path import run_turn
from chat.turn.quoting import MAX_QUOTE_CHARACTERS, widened
from chat.turn.standalone import INSTRUCTION, MAX_TOKENS
from chat.turn.values import DIRECT_MODEL, Exchange, TurnRequest, TurnResult
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.search import Passage, PointType
from tests.constants import override
from tests.factories import (
    add_document,
    make_agent,
    make_conversation,
    make_deployment,
    make_exchange,
    make_learned,
    make_library,
    make_passage,
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


def steps(result: TurnResult) -> dict[str, str]:
    """What became of each step, as the trace has it."""
    return {line["step"]: line["outcome"] for line in result.trace.lines}


def claimed(conversation: Conversation, question: str, replaces: uuid.UUID | None = None) -> TurnRequest:
    """A turn that is claimed and not run yet."""
    key = str(uuid.uuid4())
    turn = claim_turn(conversation_id=conversation.pk, client_message_id=key, question=question, replaces=replaces)
    return TurnRequest.of(conversation, question, "fr", turn)


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
    request = await in_database(claimed, conversation, question, replaces)
    listener = Listener()
    result = await run_turn(replace(request, as_typed=as_typed), listener)
    await settle(request, result)
    return result, listener


class PathTests(LibraryCase):
    def setUp(self) -> None:
        self.conversation = make_conversation(self.deployment)

    async def test_known_question_gets_its_stored_answer_without_a_model_call(self) -> None:
        with scripted():
            result, listener = await ask(self.deployment, KNOWN)
            model().assert_exhausted()
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert result.answer.model == DIRECT_MODEL
        assert "10 heures à 18 heures" in listener.text
        assert "Source : Bibliothèque municipale" in listener.text
        assert result.answer.llm_calls == 0

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
            assert steps(result)["learn"] == "not_kept"
            turn = await in_database(Turn.objects.latest, "started_at")
            stored = await in_database(read_turn, turn.pk)
            assert stored.log is not None
            assert said in stored.log.events[-1].as_json()["notice"]

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

    async def test_answer_from_passages_of_another_subject_is_quoted_where_staff_are_strict(self) -> None:
        question = "Comment se réserve la salle de mariage du château, avec son jardin ?"
        for is_strict, source in ((False, AnswerSource.LLM), (True, AnswerSource.EXTRACTIVE)):
            await in_database(Deployment.objects.update, config_overlay={"strict_answers": is_strict})
            with scripted("Elle se réserve à l’accueil [1]."):
                result, _ = await ask(self.deployment, question)
            assert (result.answer.source, result.answer.defect) == (source, "other_subject")

    async def test_number_that_differs_refuses_the_second_key(self) -> None:
        question = "Combien coûte la carte de lecteur en 2024 ?"
        result, _ = await ask(self.deployment, question)
        assert steps(result)["direct_answer"] == "second_key_refused"
        assert result.answer.source != AnswerSource.DIRECT_QA

    async def test_verifier_lets_a_refused_paraphrase_out(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"verify_answers": True})
        with scripted('{"same_answer": true}'):
            result, _ = await ask(self.deployment, VERIFIABLE)
            model().assert_exhausted()
        assert steps(result)["direct_answer"] == "verified"
        assert result.answer.llm_calls == 1
        assert result.answer.source == AnswerSource.DIRECT_QA

    async def test_follow_up_never_gets_a_direct_answer(self) -> None:
        await in_database(make_exchange, self.conversation, KNOWN, "De 10 à 18 heures.")
        result, _ = await ask(self.deployment, f"Et {KNOWN[0].lower()}{KNOWN[1:]}", self.conversation)
        assert steps(result)["standalone"] == "follow_up"
        assert result.answer.source != AnswerSource.DIRECT_QA
        asked = Message.objects.filter(role=Role.USER).select_related("turn").order_by("pk")
        assert [message.type async for message in asked] == ["user_request", "follow_up"]

    async def follow_up_of_the_fees(self, question: str) -> tuple[TurnResult, Listener]:
        await in_database(make_exchange, self.conversation, "La carte de lecteur ?", "Elle se paie.")
        return await ask(self.deployment, question, self.conversation)

    async def test_follow_up_that_the_model_rewrote_may_have_a_direct_answer(self) -> None:
        with scripted("Combien coûte la carte de lecteur ?"):
            result, listener = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            model().assert_exhausted()
        found = steps(result)
        assert (found["standalone"], found["rewriting"]) == ("follow_up", "rewritten")
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "12 euros" in listener.text
        assert result.answer.llm_calls == 1

    async def test_rewriting_that_brings_something_in_is_not_used(self) -> None:
        with scripted("Combien coûte la carte de lecteur pour 3 ans ?", "Je ne sais pas."):
            result, _ = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            model().assert_exhausted()
        found = steps(result)
        assert (found["rewriting"], found["direct_answer"]) == ("rejected", "follow_up")
        assert result.answer.llm_calls == 2

    async def test_assent_that_the_model_rewrote_is_searched_so_and_given_no_stored_answer(self) -> None:
        with scripted("Combien coûte la carte de lecteur ?", "Douze euros."):
            result, _ = await self.follow_up_of_the_fees("oui, je veux bien")
            model().assert_exhausted()
        found = steps(result)
        assert (found["standalone"], found["rewriting"]) == ("follow_up", "rewritten")
        assert found["memory_guard"] == found["direct_answer"] == "follow_up"

    async def test_rewriting_is_told_the_bounded_exchange_and_nothing_else(self) -> None:
        await in_database(make_exchange, self.conversation, "La carte de lecteur ?", "long " * 5_000)
        with scripted("Combien coûte la carte de lecteur ?"):
            await ask(self.deployment, "Combien coûte-t-elle ?", self.conversation)
            [call] = model().calls
        system, said = (message.content for message in call.messages)
        assert system == INSTRUCTION["fr"]
        assert said.endswith("Dernière question : Combien coûte-t-elle ?")
        assert len(said) < 1_000
        assert (call.options.temperature, call.options.max_tokens) == (0.0, MAX_TOKENS)

    @override(REWRITE_TIMEOUT_SECONDS=0.05)
    async def test_rewriting_that_fails_or_is_late_leaves_the_follow_up(self) -> None:
        late = ScriptedReply(pieces=["Combien", " ?"], rest=threading.Event())
        for reply in (LLMUnavailableError("down"), late):
            with scripted(reply, "Je ne sais pas."):
                result, _ = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            assert (steps(result)["rewriting"], steps(result)["direct_answer"]) == ("failed", "follow_up")

    async def test_staff_can_switch_the_rewriting_off(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"rewrite_follow_ups": False})
        with scripted("Je ne sais pas."):
            result, _ = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            model().assert_exhausted()
        assert steps(result)["rewriting"] == "off"

    async def test_messages_of_another_conversation_never_reach_the_rewriting(self) -> None:
        foreign = [Exchange(uuid.uuid4(), "La carte de lecteur ?", "secret")]
        with scripted(), mock.patch("chat.turn.prompt.load_exchanges", return_value=foreign):
            result, _ = await self.follow_up_of_the_fees("Combien coûte-t-elle ?")
            assert model().calls == []
        assert isinstance(result.error, IsolationError)

    async def test_plain_question_after_another_one_is_not_rewritten(self) -> None:
        with scripted():
            result, _ = await self.follow_up_of_the_fees(KNOWN)
            model().assert_exhausted()
        assert "rewriting" not in steps(result)
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


def hit(chunk: Chunk) -> Passage:
    facts = {"document_id": chunk.document_id, "chunk_id": chunk.pk, "chunk_index": chunk.index}
    return make_passage(chunk.content, parent_context=chunk.parent_context, **facts)


class WideningTests(TestCase):
    """The passage with its neighbours, as far as there is room."""

    def setUp(self) -> None:
        document = Document.objects.create(agent=make_agent(), name="guide.md", status=DocumentStatus.INDEXED)
        texts = ["Avant.", "La règle vaut pour tous :", "- sauf les mineurs", "Ailleurs."]
        paths = ["Prêt", "Prêt", "Prêt", "Recours"]
        self.chunks = [
            Chunk.objects.create(document=document, index=at, content=text, parent_context=path, content_hash=str(at))
            for at, (text, path) in enumerate(zip(texts, paths, strict=True))
        ]

    def test_the_ranks_of_one_document_widen_no_pair_of_another(self) -> None:
        other = Document.objects.create(agent=make_agent(), name="autre.md", status=DocumentStatus.INDEXED)
        first, _second, last = [
            Chunk.objects.create(document=other, index=at, content=f"n° {at}", content_hash=str(at))
            for at in (1, 2, 20)
        ]
        pair = hit(first).with_values(type=PointType.QA_PAIR)
        shown = widened([hit(self.chunks[1]), hit(last), pair], 3)
        assert [each.content for each in shown[1:]] == ["n° 20", "n° 1"]

    def test_a_pair_is_widened_where_its_own_passage_was_found_and_not_where_one_beside_it_was(self) -> None:
        pair = hit(self.chunks[2]).with_values(type=PointType.QA_PAIR)
        assert widened([pair, hit(self.chunks[1])], 2)[0].content == pair.content
        (shown,) = widened([pair, hit(self.chunks[2])], 2)
        assert shown.content == f"{self.chunks[1].content}\n\n{pair.content}\n\n**Recours**\n\nAilleurs."

    def test_a_rule_comes_with_what_stands_around_it_and_the_next_section_under_its_title(self) -> None:
        (shown,) = widened([hit(self.chunks[1])], 3)
        assert shown.content == (
            "Avant.\n\nLa règle vaut pour tous :\n\n- sauf les mineurs\n\n**Recours**\n\nAilleurs."
        )
        assert widened([hit(self.chunks[3])], 3)[0].content == "Ailleurs."
        assert shown.chunk_id == self.chunks[1].pk

    def test_a_passage_that_an_earlier_one_shows_is_left_out(self) -> None:
        shown = widened([hit(each) for each in self.chunks[1:]], 3)
        assert [each.chunk_id for each in shown] == [self.chunks[1].pk]

    def test_there_is_no_room_beside_a_long_passage(self) -> None:
        self.chunks[1].content = "x" * (MAX_QUOTE_CHARACTERS - 3)
        self.chunks[1].save()
        (shown,) = widened([hit(self.chunks[1])], 1)
        assert shown.content == self.chunks[1].content

    def test_a_disabled_neighbour_is_not_shown(self) -> None:
        Chunk.objects.filter(pk=self.chunks[2].pk).update(enabled=False)
        (shown,) = widened([hit(self.chunks[1])], 1)
        assert shown.content == "Avant.\n\nLa règle vaut pour tous :"
