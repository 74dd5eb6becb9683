"""The simulator: a question on the production path under given settings, without writing.

Every page, command and worker that asks without a reader goes through `simulate`. Tools are ranked and not run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils.translation import get_language

from agents.effective import EffectiveConfig, effective_config, with_settings
from agents.llm.base import language_model
from agents.models import Deployment
from chat.models import AnswerSource, Conversation, TurnStatus
from chat.protocol import Event
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from faqs.recall import Verdict, examine_memory, lookup_of, memory_mark
from knowledge.embeddings.base import Purpose, embedder
from knowledge.search import search_as, thresholds_for
from tools_registry.catalog import user_tags
from tools_registry.selection import Simulation, simulate_selection

#: How many of the nearest entries of the memory are shown.
_ENTRIES = 20


def simulate(request: TurnRequest, *, closes_model: bool = False) -> TurnResult:
    """Answer a dry run. A worker closes the model's connections, since its event loop ends with the question."""
    return async_to_sync(_run)(request, closes_model)


async def _run(request: TurnRequest, closes_model: bool) -> TurnResult:
    try:
        return await run_turn(request, _ignore)
    finally:
        if closes_model and (model := language_model()) is not None:
            await model.aclose()


async def _ignore(event: Event) -> None:
    """Nobody follows a dry run."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A question and what it was given."""

    question: str
    result: TurnResult

    @property
    def is_answered(self) -> bool:
        """By the rule that keeps a question as unanswered."""
        return self.result.status is TurnStatus.DONE and self.result.unanswered is None

    @property
    def way(self) -> str:
        source = self.result.answer.source
        return str(AnswerSource(source).label) if source in AnswerSource.values else ""

    @property
    def error(self) -> str:
        return str(self.result.error.public_message) if self.result.error else ""

    @property
    def learned_id(self) -> int | None:
        """The validated answer that was given, word for word."""
        is_given = self.result.answer.source == AnswerSource.DIRECT_QA and self.result.error is None
        return self.result.answer.learned_id if is_given else None


def replay(deployment: Deployment, questions: Sequence[str]) -> list[Simulated]:
    """Ask each question on its own; one that no stored answer meets costs a call of the language model."""
    return [Trial(deployment, question).answer() for question in questions]


def ask_again(conversation: Conversation, question: str) -> Simulated:
    """What a question is given now of what is stored, in the scope of its conversation and without a model."""
    request = TurnRequest(
        deployment_id=conversation.deployment_id,
        question=question,
        language=settings.LANGUAGE_CODE[:2],
        phase=conversation.phase,
        project=conversation.project,
        without_model=True,
    )
    return Simulated(question, simulate(request))


@dataclass(frozen=True, slots=True)
class Trial:
    """A question, where it is tried, and the settings that differ for it, by the names of `RuntimeSettings`' fields."""

    deployment: Deployment
    question: str
    settings: Mapping[str, Any] | None = None

    def config(self, answered_by: str = "") -> EffectiveConfig:
        """Of the agent that answered, where there are several."""
        config = with_settings(effective_config(self.deployment), self.settings or {})
        return next((each for each in config.agents if each.agent.name == answered_by), config)

    def answer(self) -> Simulated:
        """As a reader would be answered who begins a conversation now, a call of the model included."""
        request = TurnRequest(
            deployment_id=self.deployment.pk,
            question=self.question,
            language=(get_language() or "fr")[:2],
            settings=self.settings or {},
        )
        return Simulated(self.question, simulate(request))

    def memory(self) -> dict[str, Any]:
        """The nearest entries, judged. `threshold`: a cosine; `None` where the memory answers nothing here."""
        model = embedder()
        lookup = lookup_of(self.config(), self.question, model=model.recipe.model, writes=False)
        mark = memory_mark(self.deployment)
        verdicts: list[Verdict] = []
        if lookup is not None and mark is not None:
            vector = model.embed_one(self.question, purpose=Purpose.QUERY)
            verdicts = examine_memory(mark, lookup, vector=vector, recipe=model.recipe, limit=_ENTRIES)
        return {
            "threshold": lookup.threshold if lookup else None,
            "verdicts": verdicts,
            "served": next((each.entry_id for each in verdicts if not each.refusal), None),
        }

    def passages(self, answered_by: str = "") -> dict[str, Any]:
        """Each passage with what is held to the guard rail, its threshold (`least`), and whether it passes."""
        config = self.config(answered_by)
        found = search_as(config, self.question, limit=config.match_count)
        thresholds = thresholds_for(config, model=embedder().recipe.model)
        rows = [
            {
                "passage": each,
                "closeness": thresholds.closeness(each),
                "least": thresholds.guard_rail_for(each),
                "passes": thresholds.lets_in(each),
            }
            for each in found.passages(config.match_count)
        ]
        is_out_of_domain = found.is_out_of_domain(thresholds)
        return {"rows": rows, "direct_threshold": thresholds.direct_answer, "is_out_of_domain": is_out_of_domain}

    def tools(self) -> Simulation:
        """What would be offered to a visitor."""
        config = self.config()
        return simulate_selection(self.question, tags=user_tags(None), agent_id=config.agent.pk, config=config)
