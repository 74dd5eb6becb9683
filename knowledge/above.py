"""The interface through which `knowledge` uses the app of validated answers, which registers itself at start."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models import Agent, IndexingMethod
from knowledge.acronyms import Forms
from knowledge.models import Chunk
from knowledge.vectors.base import Json, Point
from knowledge.vectors.payloads import Passage, undated


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    id: str
    payload: dict[str, Json]

    def differs_from(self, others: "Mapping[str, Point | PlannedPoint]") -> bool:
        """Whether the point of this id among `others`, if there is one, says something else."""
        other = others.get(self.id)
        return other is None or undated(other.payload) != undated(self.payload)


@dataclass(frozen=True, slots=True)
class ConfirmedAnswers:
    """Hits on validated answers whose row answers now, completed from it; `late`: see `SearchResult`."""

    hits: Sequence[Passage] = ()
    late: Sequence[Passage] = ()


class ValidatedAnswers:
    """The default for a site without validated answers; `faqs` overrides each method."""

    def plan_points(self, agent: Agent, method: IndexingMethod) -> Iterator[PlannedPoint]:
        """The points that every rebuild of the agent's index takes along."""
        return iter(())

    def confirm(self, hits: Sequence[Passage], agent_id: int, question: str) -> ConfirmedAnswers:
        """The hits on validated answers whose row is valid."""
        return ConfirmedAnswers()

    def settle_again(self, agent_id: int, forms: Forms) -> None:
        """Apply validated answers again after these forms of an agent become one; called after the commit."""

    def resting_on(self, chunk: Chunk, content: str, units: Sequence[Mapping[str, Any]]) -> list[tuple[Any, bool]]:
        """The valid answers drawn from a passage; of each, whether this other text of the passage withdraws it."""
        return []

    def are_opposites(self, first: str, second: str) -> bool:
        return False


_registered = ValidatedAnswers()


def answers_above() -> ValidatedAnswers:
    return _registered


def register_answers(answers: ValidatedAnswers) -> None:
    global _registered
    _registered = answers
