"""The tool loop: seed 002, sections I to X; each row is a test that carries its name."""

import asyncio
import json
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings
from django.utils import timezone

from agents.database import in_database
from agents.errors import LLMUnavailableError
from agents.llm.base import RequestedCall, Usage, language_model
from agents.llm.openai import OpenAILanguageModel, _wire_message
from agents.models import Agent
from chat.errors import IsolationError, ThreadConflictError
from chat.models import (
    AnswerSource,
    Conversation,
    ExecutionState,
    Message,
    Role,
    StopReason,
    ToolExecution,
    ToolRound,
    Turn,
    TurnStatus,
)
from chat.protocol import Tool
from chat.thread.rounds import append_batch, load_thread, operation_id_of
from chat.thread.turns import interrupt_stale_turns
from chat.turn.path import run_turn
from chat.turn.tool_loop import BATCH_TRIES, choose_tools
from chat.turn.values import Toolbox, TurnRequest, TurnResult
from faqs.models import CachedResponse
from tests.constants import override
from tests.factories import (
    declared_tools,
    make_batch,
    make_conversation,
    make_exchange,
    make_tool,
    make_user,
    set_settings,
)
from tests.integration.chat.turn.test_path import FAR, Listener, ask, model, scripted
from tests.readers import LibraryCase
from tests.scripted import ScriptedReply
from tests.servers.model_server import ModelReply, ModelServer, check_chat_request
from tests.tools import asking, call, declared
from tools_registry.models import ToolOverride
from tools_registry.selection import SelectedTool, SelectionReason
from tools_registry.tool import spec_from_function

QUESTION = "Comment se réservent les salles de travail de la bibliothèque à l'accueil ?"


def weather(city: str) -> dict[str, object]:
    """Give the weather of a city.

    Args:
        city: Its name.
    """
    ran.append(city)
    return {"city": city, "degrees": 12}


def clock() -> dict[str, object]:
    """Give the time."""
    ran.append("clock")
    return {"time": "10:00"}


def constant(number: int) -> dict[str, object]:
    """Always say the same.

    Args:
        number: Any.
    """
    return {"same": True}


def broken() -> dict[str, object]:
    """Fail."""
    raise RuntimeError("the disk of jean.dupont@example.org is full")


ran: list[str] = []


def strict(messages: Any) -> None:
    """Raise where a server as strict as OpenAI's would refuse these messages."""
    wire = [_wire_message(message) for message in messages]
    check_chat_request({"model": "m", "messages": wire})


class LoopTestCase(LibraryCase):
    def setUp(self) -> None:
        ran.clear()
        self.conversation = make_conversation(self.deployment)

    @contextmanager
    def story(self, *replies: Any, tools: Any = (weather, clock)) -> Iterator[None]:
        """These replies, these tools; every reply is used, and every call of the model is acceptable."""
        with declared(*tools), scripted(*replies):
            yield
            model().assert_exhausted()
            for made in model().calls:
                strict(made.messages)

    async def ask(
        self, question: str = QUESTION, conversation: Conversation | None = None
    ) -> tuple[TurnResult, Listener]:
        return await ask(self.deployment, question, conversation)

    @contextmanager
    def dying(self) -> Iterator[None]:
        """A process that dies says nothing: neither the round nor the end of the turn is stored."""
        with (
            mock.patch("chat.turn.tool_loop.apply_round", side_effect=RuntimeError("boom")),
            mock.patch("chat.turn.path.save_exchange"),
            pytest.raises(RuntimeError),
        ):
            yield

    async def tools(self) -> list[Message]:
        return [m async for m in Message.objects.filter(role=Role.TOOL).order_by("id")]

    def knobs(self, **values: Any) -> None:
        set_settings(Agent.objects.filter(pk=self.deployment.agent_id), **values)


class SectionOneTests(LoopTestCase):
    """I. Boucle d'orchestration robuste avec arrêt intelligent."""

    async def test_arret_intelligent_pas_de_tool_calls_ends_the_loop_with_the_first_answer(self) -> None:
        with self.story(["À l'accueil [1]."]):
            result, _listener = await self.ask()
        assert result.answer.stop_reason == StopReason.ANSWERED
        assert (result.answer.llm_calls, result.answer.rounds) == (1, 0)
        assert (result.answer.source, result.answer.efficiency) == (AnswerSource.LLM, 100.0)

    async def test_limite_de_relances_ten_recalls_are_eleven_calls_of_the_model(self) -> None:
        with self.story(*(asking(call("weather", city=str(n))) for n in range(11))):
            result, _listener = await self.ask()
        assert (result.answer.llm_calls, result.answer.rounds, len(ran)) == (11, 10, 10)
        assert result.answer.stop_reason == StopReason.ROUND_LIMIT

    async def test_circuit_breaker_says_clearly_that_the_limit_is_reached(self) -> None:
        await in_database(self.knobs, max_rounds=2)
        replies = [asking(call("weather", city=str(n))) for n in range(3)]
        with self.story(*replies):
            result, listener = await self.ask()
        assert (result.answer.source, result.answer.stop_reason) == (AnswerSource.ROUND_LIMIT, StopReason.ROUND_LIMIT)
        assert (result.answer.llm_calls, result.answer.rounds, ran) == (3, 2, ["0", "1"])
        assert "la limite de 2 relances est atteinte" in result.answer.text
        assert listener.text.endswith(result.answer.text)
        assert result.status == TurnStatus.DONE
        assert (await Message.objects.exchanges().alast()).content == result.answer.text  # type: ignore[union-attr]
        assert result.answer.efficiency == 50.0

    async def test_saturation_three_recalls_with_the_same_calls_or_the_same_results(self) -> None:
        for repeated in ([call("weather", city="Lyon")] * 4, [call("constant", number=n) for n in range(4)]):
            with self.story(*map(asking, repeated), tools=(weather, constant)):
                result, _listener = await self.ask()
            assert (result.answer.stop_reason, result.answer.rounds) == (StopReason.SATURATED, 3)
            assert result.answer.source == AnswerSource.ROUND_LIMIT
            assert "rien de nouveau" in result.answer.text

    async def test_progress_of_any_kind_is_no_saturation(self) -> None:
        cities = ["a", "a", "b", "a", "a"]
        with self.story(*(asking(call("weather", city=city)) for city in cities), ["Fin."]):
            result, _listener = await self.ask()
        assert (result.answer.stop_reason, result.answer.rounds) == (StopReason.ANSWERED, 5)

    async def test_prompt_systeme_optimise_qualite_de_reponse_holds_the_stopping_criteria(self) -> None:
        with self.story(["Bien."]):
            await self.ask()
            with_tools = model().calls[0].messages[0].content
        assert "CRITÈRES D'ARRÊT INTELLIGENT" in with_tools
        assert "AUTO-ÉVALUATION OBLIGATOIRE" in with_tools
        assert "COMPLÈTE et SATISFAISANTE" in with_tools
        with self.story(["Bien."], tools=()):
            await self.ask()
            without = model().calls[0]
        assert "ARRÊT" not in without.messages[0].content
        assert without.options.tools == ()

    async def test_meme_liste_d_outils_is_chosen_once_a_turn(self) -> None:
        replies = (asking(call("weather", city="Lyon")), asking(call("clock")), ["Fin."])
        with mock.patch("chat.turn.generation.choose_tools", wraps=choose_tools) as chosen:
            with declared(weather, clock), scripted(*replies):
                await self.ask()
                offered = [made.options.tools for made in model().calls]
        assert chosen.call_count == 1
        assert offered[0] == offered[1] == offered[2]
        assert {tool["function"]["name"] for tool in offered[0]} == {"weather", "clock"}

    async def test_stop_ends_the_loop_as_cancelled_and_keeps_the_thread_valid(self) -> None:
        started, release = threading.Event(), threading.Event()

        def slow() -> dict[str, object]:
            """Wait."""
            started.set()
            release.wait(60)
            return {}

        with declared(slow), scripted(asking(call("slow"))):
            task = asyncio.create_task(self.ask(conversation=self.conversation))
            await asyncio.to_thread(started.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            release.set()
        turn = await Turn.objects.aget()
        assert (turn.status, turn.stop_reason) == (TurnStatus.INTERRUPTED, StopReason.CANCELLED)
        stored = [m async for m in Message.objects.for_conversation(self.conversation.pk)]
        assert [(m.role, m.success) for m in stored] == [
            ("user", None),
            ("assistant", None),
            ("tool", False),
            ("assistant", None),
        ]


class SectionTwoTests(LoopTestCase):
    """II. Persistance atomique, idempotence et concurrence."""

    async def test_boucle_bornee_premiere_relance_and_relances_suivantes_hold_the_request_and_its_tools(self) -> None:
        replies = (
            asking(call("weather", id="a", city="Lyon"), call("clock", id="b")),
            asking(call("weather", id="c", city="Nice")),
            ["Fin."],
        )
        with self.story(*replies):
            result, _listener = await self.ask()
        stored = [m async for m in Message.objects.exclude(operation_id=None).order_by("id")]
        assert [(m.role, m.tool_call_id, m.relance_index) for m in stored] == [
            ("assistant", "", 0),
            ("tool", "a", 0),
            ("tool", "b", 0),
            ("assistant", "", 1),
            ("tool", "c", 1),
        ]
        assert (result.answer.text, result.answer.llm_calls) == ("Fin.", 3)
        turn = await Turn.objects.aget()
        assert (turn.rounds, turn.stop_reason, turn.efficiency) == (2, "answered", 90.0)

    async def test_nouvel_operation_id_for_each_round_of_each_turn(self) -> None:
        for _ in range(2):
            with self.story(asking(call("clock")), asking(call("weather", city="L")), ["Fin."]):
                await self.ask(conversation=self.conversation)
        requests = Message.objects.filter(role=Role.ASSISTANT).exclude(operation_id=None)
        applied = [request.operation_id async for request in requests]
        assert len(set(applied)) == len(applied) == 4

    async def test_operation_id_is_derived_and_stored_before_the_tools_run(self) -> None:
        seen: list[list[uuid.UUID]] = []

        def look() -> dict[str, object]:
            """Look at what is stored."""
            seen.append(list(ToolRound.objects.values_list("operation_id", flat=True)))
            return {}

        with declared(look, uses_database=True), scripted(asking(call("look")), ["Fin."]):
            await self.ask()
        turn = await Turn.objects.aget()
        expected = operation_id_of(turn.conversation_id, turn.pk, 0)
        assert seen == [[expected]]
        requests = Message.objects.filter(role=Role.ASSISTANT).exclude(operation_id=None)
        assert [request.operation_id async for request in requests] == [expected]

    async def test_409_conflict_is_reloaded_and_replayed_aucun_doublon(self) -> None:
        def interfere() -> dict[str, object]:
            """Let somebody else write meanwhile."""
            append_batch(make_batch(self.conversation, "other"), max_tool_calls=10)
            return {}

        with (
            declared(interfere, uses_database=True),
            scripted(asking(call("interfere", id="mine")), ["Fin."]),
            override(BATCH_RETRY_SECONDS=0.001),
            self.assertLogs("chat.telemetry", "INFO") as logs,
        ):
            result, _listener = await self.ask(conversation=self.conversation)
            for made in model().calls:
                strict(made.messages)
        assert result.status == TurnStatus.DONE
        text = "\n".join(logs.output)
        assert "batch conflict" in text
        assert "applied=true" in text
        assert [m.tool_call_id for m in await self.tools()] == ["other", "mine"]

    async def test_retry_automatique_gives_up_after_three_replays_and_loses_nothing(self) -> None:
        with (
            declared(clock),
            scripted(asking(call("clock", id="mine"))),
            override(BATCH_RETRY_SECONDS=0.001),
            mock.patch("chat.turn.tool_loop.apply_round", side_effect=ThreadConflictError(version=3)) as applied,
        ):
            result, _listener = await self.ask(conversation=self.conversation)
        assert applied.call_count == 1 + BATCH_TRIES
        assert result.error is not None
        assert result.error.code == "thread_conflict"
        assert [(m.tool_call_id, m.success) for m in await self.tools()] == [("mine", True)]

    async def test_a_finished_tool_is_never_run_a_second_time(self) -> None:
        reply = asking(call("weather", id="a", city="Lyon"), call("clock", id="b"))
        with declared(weather, clock), scripted(reply):
            with self.dying():
                await self.ask(conversation=self.conversation)
            assert sorted(ran) == ["Lyon", "clock"]
            turn = await Turn.objects.aget()
            model().script(["Fin."])
            result = await self.replay(turn)
        assert sorted(ran) == ["Lyon", "clock"]
        assert result.answer.text == "Fin."
        assert [(m.tool_call_id, m.success) for m in await self.tools()] == [("a", True), ("b", True)]

    async def replay(self, turn: Turn) -> TurnResult:
        request = TurnRequest(self.deployment.pk, QUESTION, "fr", turn.pk, turn.conversation_id)
        return await run_turn(request, Listener())

    async def test_results_of_a_dead_turn_stay_with_its_own_question(self) -> None:
        with declared(clock), scripted(asking(call("clock", id="a"))):
            with self.dying():
                await self.ask(conversation=self.conversation)
            past = timezone.now() - timedelta(seconds=1)
            await in_database(Turn.objects.update, lease_expires_at=past)
            assert await in_database(interrupt_stale_turns) == 1
            model().script(["Fin."])
            await self.ask(conversation=self.conversation)
            roles = [m.role for m in model().calls[-1].messages]
        assert roles == ["system", "user", "assistant", "tool", "user"]
        assert ran == ["clock"]


class SectionThreeTests(LoopTestCase):
    """III. Construction et injection du thread (rappel)."""

    async def test_ne_jamais_reinjecter_the_current_question(self) -> None:
        await in_database(make_exchange, self.conversation, "Avant ?", "Oui.")
        replies = (asking(call("weather", city="Lyon")), asking(call("clock")), ["Fin."])
        with self.story(*replies):
            await self.ask(conversation=self.conversation)
            prompts = [made.messages for made in model().calls]
        for messages in prompts:
            questions = [m.content for m in messages if m.role == "user"]
            assert [QUESTION in question for question in questions] == [False, True]

    async def test_thread_reconstruit_thread_db_recharge_holds_earlier_rounds(self) -> None:
        with self.story(asking(call("weather", city="Lyon")), ["12 °C."]):
            await self.ask(conversation=self.conversation)
        with self.story(["Oui."]):
            await self.ask(conversation=self.conversation)
            roles = [m.role for m in model().calls[0].messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]

    async def test_dernier_bloc_avant_rappel_rappels_is_the_request_followed_by_all_its_tools(self) -> None:
        replies = (asking(call("weather", city="Lyon"), call("clock"), call("weather", city="Nice")), ["Fin."])
        with self.story(*replies):
            await self.ask()
            last = model().calls[1].messages[-4:]
        assert [m.role for m in last] == ["assistant", "tool", "tool", "tool"]
        assert [m.tool_call_id for m in last[1:]] == [c.id for c in last[0].tool_calls]
        assert json.loads(last[1].content) == {"city": "Lyon", "degrees": 12}


class SectionFourTests(LoopTestCase):
    """IV. Normalisation et validation des messages tool; VIII. Validation."""

    async def test_arguments_non_json_no_tool_of_the_reply_is_run_and_the_model_reads_why(self) -> None:
        for arguments in ("{", "[1]", '{"city": NaN}', "text"):
            ran.clear()
            bad = RequestedCall("bad", "weather", arguments)
            with self.story(asking(bad, call("clock", id="good")), ["Pardon."]):
                result, _listener = await self.ask()
                said = model().calls[1].messages[-2:]
            assert ran == []
            assert "invalid_tool_arguments" in said[0].content
            assert "not_run" in said[1].content
            assert result.answer.text == "Pardon."
        assert not any(m.success for m in await self.tools())

    async def test_strange_ids_and_names_become_ones_that_every_api_takes_back(self) -> None:
        strange = (
            RequestedCall("", "clock", "{}"),
            RequestedCall("x" * 60, "clock", "null"),
            RequestedCall("twice", "clock", "{}"),
            RequestedCall("twice", "clock", "{}"),
            RequestedCall("n", "no such tool!", "{}"),
            RequestedCall("m", "", "{}"),
            RequestedCall("no arguments", "clock", ""),
        )
        with self.story(asking(*strange), ["Fin."]):
            await self.ask()
        assert [m.success for m in await self.tools()] == [True] * 4 + [False] * 2 + [True]

    async def test_limite_de_securite_ten_calls_a_round_the_others_are_not_made(self) -> None:
        await in_database(self.knobs, max_tool_calls=2)
        calls = [call("weather", city=str(n)) for n in range(4)]
        with self.story(asking(*calls), ["Fin."]):
            await self.ask()
        assert sorted(ran) == ["0", "1"]

    async def test_a_tool_that_fails_becomes_a_tool_message_that_the_model_reads(self) -> None:
        with self.story(asking(call("broken")), ["Désolé."], tools=(broken,)):
            result, listener = await self.ask()
            said = model().calls[1].messages[-1].content
        assert json.loads(said)["error"]["code"] == "tool_failed"
        assert "dupont" not in said
        stored = await Message.objects.aget(role=Role.TOOL)
        assert (stored.success, stored.error, stored.relance_index) == (False, "tool_failed", 0)
        assert stored.duration_ms is not None
        assert stored.timestamp is not None
        assert result.answer.text == "Désolé."

    async def test_unknown_and_forbidden_tools_are_not_run_when_asked_for_by_name(self) -> None:
        with declared(clock, tags=frozenset({"staff"})), declared_tools(spec_from_function(weather)):
            with scripted(asking(call("clock"), call("nothing")), ["Non."]):
                await self.ask()
                offered = model().calls[0].options.tools
        assert [tool["function"]["name"] for tool in offered] == ["weather"]
        assert ran == []
        assert [m.error for m in await self.tools()] == ["unknown_tool"] * 2

    async def test_a_right_lost_while_the_model_answers_bites_within_the_turn(self) -> None:
        user = await in_database(make_user)
        group = await Group.objects.acreate(name="librarians")
        await user.groups.aadd(group)
        conversation = await in_database(make_conversation, self.deployment, user=user)

        def leave() -> dict[str, object]:
            """Leave the group."""
            user.groups.clear()
            return {}

        with declared(clock, leave, tags=frozenset({"librarians"}), uses_database=True):
            with scripted(asking(call("leave")), asking(call("clock")), ["Non."]):
                await self.ask(conversation=conversation)
                offered = [len(made.options.tools) for made in model().calls]
        assert offered == [2, 2, 2]
        assert ran == []
        assert [(m.name, m.error) for m in await self.tools()] == [("leave", ""), ("clock", "tool_forbidden")]


class SectionFiveTests(LoopTestCase):
    """V. HistoryBuilder / ThreadBuilder (pruning sûr)."""

    async def test_pruning_securise_never_cuts_the_last_block(self) -> None:
        await in_database(self.knobs, context_messages=3, history_messages=12, context_exchanges=3)
        for number in range(4):
            await in_database(make_exchange, self.conversation, f"q{number}", f"a{number}")
        replies = (asking(*(call("weather", city=str(n)) for n in range(5))), asking(call("clock")), ["Fin."])
        with self.story(*replies):
            await self.ask(conversation=self.conversation)
            first, second, third = (made.messages for made in model().calls)
        assert [m.role for m in first] == ["system", "user", "assistant", "user"]
        assert first[1].content == "q3"
        assert [m.role for m in second] == ["system", "user", "assistant", *["tool"] * 5]
        assert [m.role for m in third] == ["system", "user", "assistant", "tool"]


class SectionSixTests(LoopTestCase):
    """VI. Logs et traçabilité."""

    async def test_logs_avant_chaque_appel_details_des_tool_calls_metadonnees_de_tracage(self) -> None:
        question = f"{QUESTION} Je suis Jean Dupont, jean@example.org, 06 12 34 56 78."
        secret = call("weather", id="a", city="Jean Dupont 0612345678")
        with self.story(asking(secret), ["Fin."]):
            with self.assertLogs(level=logging.DEBUG) as logs:
                await self.ask(question, self.conversation)
        turn = await Turn.objects.aget()
        text = "\n".join(line for line in logs.output if not line.startswith("DEBUG:asyncio"))
        operation = operation_id_of(self.conversation.pk, turn.pk, 0)
        assert f"model call round_id={turn.pk} operation_id={operation} relance_index=0" in text
        assert f"tool calls round_id={turn.pk} relance_index=0 calls=weather(a)" in text
        assert f"batch applied round_id={turn.pk} operation_id={operation} relance_index=0 applied=true" in text
        assert "last=system" in text
        for personal in ("Jean", "Dupont", "example.org", "06 12", "0612345678"):
            assert personal not in text, personal


class IsolationTests(LoopTestCase):
    """Isolation stricte des sessions."""

    async def test_should_reject_foreign_session_messages_before_any_call_of_a_model(self) -> None:
        foreign = await in_database(make_conversation, self.deployment)
        await in_database(make_exchange, foreign, "Foreign user", "Foreign assistant")
        conversation = await in_database(make_conversation, self.deployment, title="Suite")
        stolen = await in_database(load_thread, conversation_id=foreign.pk, limit=50)
        with declared(clock), scripted():
            with (
                mock.patch("chat.thread.rounds.load_thread", return_value=stolen),
                self.assertLogs("chat.telemetry", "ERROR") as logs,
            ):
                result, _listener = await self.ask(conversation=conversation)
            assert model().calls == []
        assert isinstance(result.error, IsolationError)
        assert str(foreign.pk) in logs.output[0]
        assert "Foreign" not in "".join(logs.output)


class EventTests(LoopTestCase):
    """What a reader sees of tools, and what a turn without them costs."""

    async def test_each_tool_is_announced_when_it_starts_and_when_it_ends(self) -> None:
        replies = (asking(call("clock", id="a"), call("broken", id="b"), text="Je regarde."), ["Fin."])
        with self.story(*replies, tools=(clock, broken)):
            _result, listener = await self.ask()
        told = [(e.tool_call_id, e.status) for e in listener.events if isinstance(e, Tool)]
        assert sorted(told) == [("a", "done"), ("a", "running"), ("b", "failed"), ("b", "running")]
        assert listener.text == "Je regarde.\n\nFin."
        done = listener.done
        assert done.content == "Fin."

    async def test_multi_tools_nominal_stores_each_result_once_and_in_the_order_of_the_calls(self) -> None:
        calls = [call("weather", city=str(n)) for n in range(5)]
        with self.story(asking(*calls), ["Fin."]):
            await self.ask()
        assert [m.tool_call_id for m in await self.tools()] == [c.id for c in calls]
        states = [e.state async for e in ToolExecution.objects.all()]
        assert states == [ExecutionState.FINISHED] * 5

    async def test_guard_rail_lets_a_question_pass_for_a_tool_above_its_threshold(self) -> None:
        found = SelectedTool(make_tool("clock"), 0.9, SelectionReason.SIMILAR)
        toolbox = Toolbox((found,), None, has_threshold=True)
        with mock.patch("chat.turn.generation.choose_tools", return_value=toolbox), scripted(["10 h."]):
            result, _listener = await self.ask(FAR)
            prompt = model().calls[0].messages[-1].content
        assert result.answer.source == AnswerSource.LLM
        assert prompt.endswith(FAR)
        assert "passed_by_tool" in [line["outcome"] for line in result.trace.lines]
        assert not Toolbox((found,), None).fits_the_question, "the model's scores were not measured"

    async def test_guard_rail_lets_a_phrasing_of_a_tool_pass_in_every_mode(self) -> None:
        await ToolOverride.objects.acreate(tool_name="clock", examples=[f"{FAR.upper()} !"])
        for mode in ("direct", "local"):
            await in_database(self.knobs, tool_mode=mode)
            with self.story(["10 h."]):
                result, _listener = await self.ask(FAR)
            assert result.answer.source == AnswerSource.LLM, mode

    async def test_guard_rail_stays_shut_for_tools_that_were_not_chosen_for_the_question(self) -> None:
        with self.story():
            result, _listener = await self.ask(FAR)
        assert result.answer.source == AnswerSource.GUARD_RAIL

    async def test_a_personal_tool_makes_a_personal_answer(self) -> None:
        with declared(clock, is_personal=True), scripted(asking(call("clock")), ["Fin."]):
            result, _listener = await self.ask()
        assert result.answer.is_personal
        assert (await Turn.objects.aget()).is_personal

    async def test_tokens_of_every_call_are_counted(self) -> None:
        replies = (
            ScriptedReply(tool_calls=[call("clock")], usage=Usage(10, 2)),
            ScriptedReply(pieces=["Fin."], usage=Usage(20, 3)),
        )
        with self.story(*replies):
            result, _listener = await self.ask()
        assert (result.answer.prompt_tokens, result.answer.completion_tokens) == (30, 5)


class SectionTenTests(LoopTestCase):
    """X. Critères de réception, with the backend of real servers and a server as strict as theirs."""

    async def test_sequence_claire_multi_tool_enchaine_plusieurs_vagues_sans_confusion_d_id(self) -> None:
        def wave(*cities: str) -> ModelReply:
            # Some servers number the calls of every reply from 0 again.
            calls = [
                {"id": f"call_{n}", "name": "weather", "arguments": json.dumps({"city": city})}
                for n, city in enumerate(cities)
            ]
            return ModelReply(tool_calls=calls)

        with ModelServer(api_key="k") as server, declared(weather), served(server):
            server.script(wave("a", "b"), wave("c", "d", "e"), ModelReply(tokens=["Fin."]))
            result, _listener = await self.ask(conversation=self.conversation)
            server.script(ModelReply(tokens=["Oui."]))
            await self.ask(conversation=self.conversation)
            await closed()
            assert [made.status for made in server.calls] == [200] * 4
            last = server.calls[-1].body["messages"]
        assert (result.answer.text, result.answer.rounds, result.answer.llm_calls) == ("Fin.", 2, 3)
        roles = [message["role"] for message in last]
        first, second = ["assistant", "tool", "tool"], ["assistant", "tool", "tool", "tool"]
        assert roles == ["system", "user", *first, *second, "assistant", "user"]
        cities = [json.loads(m["content"])["city"] for m in last if m["role"] == "tool"]
        assert cities == ["a", "b", "c", "d", "e"]


def served(server: ModelServer, key: str = "k", **more: Any) -> override_settings:
    options = {"base_url": server.base_url, "model": "strict", "api_key": key, **more}
    backend = "agents.llm.openai.OpenAILanguageModel"
    return override_settings(LLMS={"default": {"BACKEND": backend, "OPTIONS": options}})


async def closed() -> None:
    """Leave no connection behind in this test's event loop."""
    used = language_model()
    assert isinstance(used, OpenAILanguageModel)
    await used.aclose()


class EarlierToolsTests(LoopTestCase):
    """What tools said in an earlier turn stays out of the memory, whatever became of that turn."""

    async def test_answer_after_the_results_of_earlier_tools_is_not_learned(self) -> None:
        await in_database(self.knobs, memory_learning="valid")
        with self.story(asking(call("clock")), LLMUnavailableError("down")):
            await self.ask(conversation=self.conversation)
        with self.story(["À l'accueil [1]."]):
            result, _listener = await self.ask(conversation=self.conversation)
        learned = next(line for line in result.trace.lines if line["step"] == "learn")
        assert learned["outcome"] == "not_kept"
        assert not await CachedResponse.objects.aexists()
