"""A question tried by staff: the path of a turn with settings changed on paper, and what it chose from; nothing is
written.

Beside the answer stand the neighbours that decided it: the entries of the memory, the passages, the tools, each with
its score and the verdict of the code that serves. Tools are ranked and not run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth.models import AbstractBaseUser
from django.utils.translation import get_language

from agents.effective import EffectiveConfig, effective_config, with_settings
from agents.models import Deployment
from chat.protocol import Event
from chat.turn.path import run_turn
from chat.turn.values import TurnRequest, TurnResult
from faqs.recall import Verdict, examine_memory, lookup_of, memory_mark
from knowledge.embeddings.base import Purpose, embedder
from knowledge.search import Passage, search_as, thresholds_for
from tools_registry.catalog import user_tags
from tools_registry.selection import SelectionSettings, Simulation, simulate_selection

#: How many of the nearest entries of the memory are shown.
_ENTRIES = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """A question, where it is tried, and the settings that are changed for it, by the names of `RuntimeSettings`'
    fields.
    """

    deployment: Deployment
    question: str
    settings: Mapping[str, Any]

    def config(self, result: TurnResult | None = None) -> EffectiveConfig:
        """Of the agent that answered, where there are several."""
        config = with_settings(effective_config(self.deployment), self.settings)
        name = result.answer.answered_by if result else ""
        return next((each.config for each in config.agents if each.name == name), config)

    def answer(self) -> TurnResult:
        """As a reader would be answered who begins a conversation now, a call of the model included."""
        request = TurnRequest(
            deployment_id=self.deployment.pk,
            question=self.question,
            language=(get_language() or "fr")[:2],
            settings=self.settings,
        )
        return async_to_sync(run_turn)(request, _ignore)

    def memory(self) -> "TriedMemory":
        model, config = embedder(), self.config()
        lookup = lookup_of(config, self.question, model=model.recipe.model, writes=False)
        mark = memory_mark(self.deployment)
        if lookup is None:
            return TriedMemory(None)
        if mark is None:
            return TriedMemory(lookup.threshold)
        vector = model.embed_one(self.question, purpose=Purpose.QUERY)
        found = examine_memory(mark, lookup, vector=vector, recipe=model.recipe, limit=_ENTRIES)
        return TriedMemory(lookup.threshold, found)

    def passages(self, result: TurnResult | None) -> "TriedPassages":
        """Of the deployment's first agent where nothing was answered. Raises the errors of the embedder and the vector
        store.
        """
        config = self.config(result)
        found = search_as(config, self.question, limit=config.match_count)
        thresholds = thresholds_for(config, model=embedder().recipe.model)
        return TriedPassages(
            [
                TriedPassage(
                    passage,
                    found.nearness(passage),
                    thresholds.guard_rail_for(passage),
                    found.lets_in(passage, thresholds),
                )
                for passage in found.passages(config.match_count)
            ],
            thresholds.direct_answer,
            found.is_out_of_domain(thresholds),
        )

    def tools(self, user: AbstractBaseUser | None) -> Simulation:
        """What would be offered to this person; `None` is a visitor."""
        config = self.config()
        return simulate_selection(
            self.question,
            tags=user_tags(user),
            agent_id=config.agent_id,
            config=SelectionSettings(
                tool_mode=config.tool_mode,
                tool_top_k=config.tool_top_k,
                tool_threshold=config.tool_threshold,
                tools_enabled=config.tools_enabled,
            ),
        )


@dataclass(frozen=True, slots=True)
class TriedMemory:
    """The nearest entries, judged. `threshold`: a cosine; `None` where the memory answers nothing here."""

    threshold: float | None
    verdicts: Sequence[Verdict] = ()

    @property
    def served(self) -> int | None:
        return next((each.entry_id for each in self.verdicts if not each.refusal), None)


@dataclass(frozen=True, slots=True)
class TriedPassage:
    """One passage with what is held to the guard rail, its threshold, and whether it passes."""

    passage: Passage
    nearness: float
    least: float | None
    passes: bool


@dataclass(frozen=True, slots=True)
class TriedPassages:
    rows: Sequence[TriedPassage]
    direct_threshold: float | None
    is_out_of_domain: bool


async def _ignore(event: Event) -> None:
    """Nobody follows a try."""
