"""Rewriting a follow-up, against the scripted server: what is asked, and that every fault leaves the follow-up as it
was.
"""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from unittest import mock

import pytest

from agents.effective import EffectiveConfig
from agents.llm.openai import OpenAILanguageModel
from chat.errors import IsolationError
from chat.turn.standalone import INSTRUCTION, MAX_TOKENS, make_standalone
from chat.turn.values import Exchange, StandaloneQuestion, TurnContext, TurnInProgress, TurnRequest, TurnResult
from knowledge.language.spelling import NO_WORDS
from knowledge.language.typed import read_typed
from tests.constants import override
from tests.servers.model_server import ModelReply, ModelServer
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.contracts

CONVERSATION = uuid.uuid4()
PREVIOUS, QUESTION = "Le FICP, c'est quoi ?", "Qui peut le consulter ?"
REWRITTEN = "Qui peut consulter le FICP ?"
HISTORY = [Exchange(CONVERSATION, PREVIOUS, "Un fichier de la Banque de France.")]


class Rewriter:
    """The step as a turn takes it, with what it leaves behind."""

    def __init__(self, server: ModelServer) -> None:
        self.llm = OpenAILanguageModel(base_url=server.base_url, model="contract", max_retries=0)
        self.result = TurnResult()
        self.config = mock.Mock(spec=EffectiveConfig, rewrite_follow_ups=True, llm_model="")

    def __call__(self, history: Sequence[Exchange] = HISTORY) -> StandaloneQuestion:
        return asyncio.run(self._resolved(history))

    async def _resolved(self, history: Sequence[Exchange]) -> StandaloneQuestion:
        request = TurnRequest(0, QUESTION, "fr", conversation_id=CONVERSATION)
        turn = TurnInProgress(request, mock.AsyncMock(), self.result)
        turn.context = TurnContext(self.config, history, PREVIOUS, None, None)
        turn.read = read_typed(QUESTION, NO_WORDS)
        with mock.patch("chat.turn.standalone.language_model", return_value=self.llm):
            try:
                return await make_standalone(turn)
            finally:
                await self.llm.aclose()

    @property
    def line(self) -> tuple[str, str]:
        line = self.result.trace.lines[-1]
        return line["outcome"], line["detail"]


@pytest.fixture
def rewriter(server: ModelServer) -> Iterator[Rewriter]:
    with override(REWRITE_TIMEOUT_SECONDS=PATIENCE_SECONDS):
        yield Rewriter(server)


def test_prompt_holds_the_exchange_and_is_bounded(server: ModelServer, rewriter: Rewriter) -> None:
    server.script(ModelReply(tokens=[REWRITTEN]))
    rewriter([Exchange(CONVERSATION, PREVIOUS, "long " * 5_000)])
    body = server.calls[0].body
    assert body["messages"][0] == {"role": "system", "content": INSTRUCTION["fr"]}
    assert body["messages"][1]["content"].endswith(f"Dernière question : {QUESTION}")
    assert len(body["messages"][1]["content"]) < 1_000
    assert body["temperature"] == 0.0
    assert MAX_TOKENS in (body.get("max_tokens"), body.get("max_completion_tokens"))


def test_a_fault_of_the_server_leaves_the_follow_up(server: ModelServer, rewriter: Rewriter) -> None:
    server.script(ModelReply(tokens=["Qui", " peut"], cut_after=1))
    assert rewriter().is_follow_up
    assert rewriter.line[0] == "failed"


def test_a_slow_model_is_not_waited_for(server: ModelServer, rewriter: Rewriter) -> None:
    server.script(ModelReply(tokens=[REWRITTEN], delay=0.3))
    with override(REWRITE_TIMEOUT_SECONDS=0.05):
        asked = rewriter()
    assert asked.is_follow_up


def test_staff_can_switch_it_off(server: ModelServer, rewriter: Rewriter) -> None:
    rewriter.config.rewrite_follow_ups = False
    asked = rewriter()
    assert asked.is_follow_up
    assert rewriter.line[0] == "off"
    assert server.calls == []


def test_messages_of_another_conversation_never_reach_the_model(server: ModelServer, rewriter: Rewriter) -> None:
    with pytest.raises(IsolationError):
        rewriter([Exchange(uuid.uuid4(), PREVIOUS, "secret")])
    assert server.calls == []
