"""A summary in the place of old exchanges: when it is made, what it covers, who gets it, and what is left of it."""

import uuid
from itertools import permutations
from typing import Any
from unittest import mock

from django.test import TestCase

from agents.database import in_database
from agents.llm.base import Reply
from agents.models import Deployment
from chat.errors import IsolationError
from chat.models import Conversation, Turn
from chat.runs.afterwards import write_with_model
from chat.thread.messages import show_version
from chat.thread.turns import claim_turn
from chat.turn.path import run_turn
from chat.turn.prompt import SUMMARY_REQUEST, load_exchanges, summarised
from chat.turn.values import Exchange, TurnRequest, TurnResult
from tests.constants import override
from tests.factories import make_conversation, make_exchange, make_library, save_answer
from tests.integration.chat.turn.test_path import NEAR, Listener, claimed, model, scripted, steps
from tests.readers import LibraryCase
from tests.scripted import ScriptedReply

AGAIN = "Elle réserve encore une salle."
#: Long, of the words of a passage, and no loop.
LONG = " ".join(
    f"Pour les {a}, c'est comme pour les {b} ou pour les {c} [1]."
    for a, b, c in permutations(["livres", "documents", "salles", "emprunts"], 3)
)


async def ask(conversation: Conversation) -> TurnResult:
    """One whole turn, with what comes after its answer."""
    request = await in_database(claimed, conversation, NEAR)
    result = await run_turn(request, Listener())
    await write_with_model(request, result)
    return result


def prompt(call: int) -> list[str]:
    return [message.content for message in model().calls[call].messages]


class SummaryTests(LibraryCase):
    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        cls.deployment.config_overlay = {"summarise_exchanges": True}
        cls.deployment.save()

    def setUp(self) -> None:
        self.conversation = make_conversation(self.deployment)

    async def stored(self) -> list[tuple[str, Turn]]:
        def found() -> list[tuple[str, Turn]]:
            turns = Turn.objects.filter(conversation=self.conversation).exclude(summary="")
            return [(turn.summary, turn) for turn in turns]

        return await in_database(found)

    async def test_next_prompt_gets_the_summary_in_the_place_of_the_exchanges(self) -> None:
        with scripted([LONG], ["Elle réserve une salle [1]."], [LONG], [AGAIN], [LONG], ["Fin [1]."]):
            first = await ask(self.conversation)
            second = await ask(self.conversation)
            third = await ask(self.conversation)
            asked_for, messages, last = prompt(1), prompt(2), prompt(4)
        assert steps(first)["prompt"] == "built"
        assert LONG.strip() in asked_for[1]
        assert messages[1:3] == [SUMMARY_REQUEST, "Elle réserve une salle."]
        assert len(messages) == 4
        assert steps(second)["prompt"] == steps(third)["prompt"] == "summarised"
        assert last[1:3] == [SUMMARY_REQUEST, AGAIN]
        assert len(last) == 4

    async def test_its_cost_and_its_text_are_on_the_turn_that_it_follows(self) -> None:
        with scripted([LONG], ["Elle réserve une salle."]):
            await ask(self.conversation)
        ((text, turn),) = await self.stored()
        assert (text, turn.llm_calls) == ("Elle réserve une salle.", 2)
        last = turn.trace[-1]
        assert (last["step"], last["outcome"], last["detail"]) == ("summary", "written", text)

    async def test_short_exchanges_are_not_worth_one(self) -> None:
        with scripted(["Oui [1]."]):
            await ask(self.conversation)
            assert len(model().calls) == 1
        assert await self.stored() == []

    async def test_model_that_fails_or_is_slow_leaves_the_raw_exchanges(self) -> None:
        slow = ScriptedReply(pieces=["Un", " résumé"], interval=0.2)
        for fault in (slow, ScriptedReply(pieces=["mot " * 2_000]), ScriptedReply(pieces=[])):
            conversation = await in_database(make_conversation, self.deployment)
            with scripted([LONG], fault, ["Oui [1]."], fault), override(SUMMARY_TIMEOUT_SECONDS=0.05):
                await ask(conversation)
                second = await ask(conversation)
                assert LONG.strip() in prompt(2)[2]
            assert steps(second)["prompt"] == "built"
        assert not await Turn.objects.exclude(summary="").aexists()

    async def test_conversation_deleted_meanwhile_keeps_nothing(self) -> None:
        gone = Conversation.objects.filter(pk=self.conversation.pk)

        async def deleting(*_args: Any, **_kwargs: Any) -> Any:
            await in_database(gone.delete)
            return Reply("Elle réserve une salle.", "scripted")

        with scripted([LONG]), mock.patch("chat.runs.afterwards._written", deleting):
            await ask(self.conversation)
        assert not await Turn.objects.aexists()

    async def test_exchange_of_another_conversation_never_reaches_the_model(self) -> None:
        foreign = Exchange(uuid.uuid4(), SUMMARY_REQUEST, "secret", uuid.uuid4())
        with scripted([LONG], ["Elle réserve une salle."], ["jamais"]):
            await ask(self.conversation)
            with mock.patch("chat.turn.prompt.summarised", return_value=[foreign]):
                result = await ask(self.conversation)
            assert len(model().calls) == 2
        assert isinstance(result.error, IsolationError)


class CoverageTests(TestCase):
    """Which summary stands for which exchanges."""

    def setUp(self) -> None:
        self.conversation = make_conversation(make_library())
        self.turns = [make_exchange(self.conversation, f"q{number}", f"a{number}") for number in range(4)]

    def told(self) -> list[tuple[str, str]]:
        history = load_exchanges(conversation_id=self.conversation.pk, limit=3)
        return [(exchange.question, exchange.answer) for exchange in summarised(history)]

    def keep(self, number: int, text: str) -> None:
        Turn.objects.filter(pk=self.turns[number].pk).update(summary=text)

    def test_exchanges_after_the_summary_are_raw(self) -> None:
        self.keep(1, "until 1")
        self.keep(2, "until 2")
        assert self.told() == [(SUMMARY_REQUEST, "until 2"), ("q3", "a3")]

    def test_stale_summary_and_that_of_another_conversation_are_not_used(self) -> None:
        self.keep(0, "until 0")
        assert self.told() == []
        other = make_exchange(make_conversation(self.conversation.deployment), "q", "a")
        Turn.objects.filter(pk=other.pk).update(summary="secret")
        assert self.told() == []

    def test_summary_belongs_to_its_branch(self) -> None:
        self.keep(3, "until 3")
        claimed = claim_turn(
            conversation_id=self.conversation.pk,
            client_message_id="edited",
            question="q3 edited",
            replaces=self.turns[3].pk,
        )
        assert self.told() == []
        save_answer(claimed, "a3 edited")
        assert self.told() == []
        show_version(self.conversation.pk, self.turns[3].pk)
        assert self.told() == [(SUMMARY_REQUEST, "until 3")]

    async def test_nothing_is_made_once_the_conversation_has_gone_on(self) -> None:
        request = TurnRequest(self.conversation.deployment_id, "q1", "fr", self.turns[1].pk, self.conversation.pk)
        await in_database(Deployment.objects.update, config_overlay={"summarise_exchanges": True})
        with scripted(), mock.patch("chat.runs.afterwards.LEAST_CHARACTERS", 0):
            await write_with_model(request, TurnResult())
            assert model().calls == []
