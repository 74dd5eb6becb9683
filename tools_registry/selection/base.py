"""`select_tools`: resident tools, then those that a mode finds for the question, and those used a moment ago.

The candidates are what `catalog.available_tools` gave: the permission wall has been passed and nothing here widens it.
Modes are backends of the setting `TOOL_SELECTORS` (`direct`, `local`, `external`); a backend ranks candidates, and the
rules (at most three resident, top-K, threshold, recent tools kept, no more than the model takes) are here, once.
Thresholds are inclusive.

A backend does its database work in `prepare`; `rank` then computes (`local`) or asks a vector store (`external`). Where
a backend is not `is_immediate`, call `select_tools` across the bridge that its `uses_database` names.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agents.backends import BackendHandler
from agents.llm.base import LanguageModel, language_model
from agents.models import ToolMode
from knowledge.embeddings.base import Vectors, embedder
from tools_registry.catalog import ToolList
from tools_registry.tool import ToolSpec

#: A resident tool takes room in every prompt (seed 003, step 2).
MAX_RESIDENT = 3


class SelectionReason(StrEnum):
    RESIDENT = "resident"
    SIMILAR = "similar"
    RECENT = "recent"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class SelectedTool:
    """A tool to offer, why, and its score where the mode gives one."""

    spec: ToolSpec
    score: float | None
    reason: SelectionReason


@dataclass(frozen=True, slots=True)
class RankedTool:
    spec: ToolSpec
    score: float


class SelectionConfig(Protocol):
    """What selection reads of `agents.effective.EffectiveConfig`."""

    @property
    def tools_enabled(self) -> bool: ...
    @property
    def tool_mode(self) -> str: ...
    @property
    def tool_top_k(self) -> int: ...
    @property
    def tool_threshold(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """A `SelectionConfig` of its own, for commands and for trying a question."""

    tool_mode: str
    tool_top_k: int
    tool_threshold: float | None
    tools_enabled: bool = True


#: From which score on a tool is offered where staff set no threshold, by embedding model; see
#: `benchmarks/tools/README.md`. A model that is not here has no threshold: the best are offered whatever their scores.
MODEL_THRESHOLDS: dict[str, float] = {
    "universal-sentence-encoder-multilingual-3": 0.25,
    "multilingual-e5-small": 0.90,
    # Not measured: seed 003 asks for a threshold and names none; this is what semantic-router ships for the model.
    "text-embedding-3-small": 0.30,
}


def effective_threshold(config: SelectionConfig) -> float | None:
    """Staff's threshold, else the one of the embedding model in use, else none."""
    if config.tool_threshold is not None:
        return config.tool_threshold
    return MODEL_THRESHOLDS.get(embedder().recipe.model)


class ToolSelector(ABC):
    """Ranks candidates for a question."""

    #: Whether `rank` scores; where it does not, every candidate is offered.
    ranks: bool = True

    @property
    def uses_database(self) -> bool:
        """Whether `rank` may read the database; where it does not, it may wait for the network."""
        return True

    def prepare(self, candidates: ToolList) -> None:  # noqa: B027  # most modes have nothing to do
        """Do the database's part beforehand: see that what `rank` looks in follows the index."""

    def is_immediate(self, candidates: ToolList) -> bool:
        """Whether `rank` waits for neither database nor network, and computes for less time than a thread costs."""
        return False

    @abstractmethod
    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[RankedTool]:
        """The `limit` best candidates, best first."""


_selectors: BackendHandler[ToolSelector] = BackendHandler("TOOL_SELECTORS", ToolSelector)


def tool_selector(mode: str) -> ToolSelector:
    return _selectors[mode]


def tool_limit() -> int:
    """How many tools the model takes in one request."""
    model = language_model()
    return LanguageModel.most_tools if model is None else model.most_tools


def mode_in_use(config: SelectionConfig, candidates: ToolList) -> str:
    """How tools are chosen: `direct` offers everything, so above what the model takes it gives way to `local`."""
    if config.tool_mode == ToolMode.DIRECT and len(candidates) > tool_limit():
        return ToolMode.LOCAL.value
    return config.tool_mode


def select_tools(
    *,
    question_vector: Vectors,
    question: str,
    candidates: ToolList,
    recent: Sequence[str] = (),
    config: SelectionConfig,
) -> list[SelectedTool]:
    """Return the tools to offer for this question: resident ones, then by score, then those in `recent` (names)."""
    if not config.tools_enabled or not candidates:
        return []
    selector = tool_selector(mode_in_use(config, candidates))
    if not selector.ranks:
        return [
            SelectedTool(spec, None, SelectionReason.RESIDENT if spec.is_always_on else SelectionReason.ALL)
            for spec in candidates
        ]
    chosen = {
        spec.name: SelectedTool(spec, None, SelectionReason.RESIDENT) for spec in candidates.resident[:MAX_RESIDENT]
    }
    ranked = selector.rank(
        question_vector=question_vector, question=question, candidates=candidates, limit=config.tool_top_k + len(chosen)
    )
    threshold = effective_threshold(config)
    similar = 0
    for found in ranked:
        if similar == config.tool_top_k or (threshold is not None and found.score < threshold):
            break
        if found.spec.name not in chosen:
            chosen[found.spec.name] = SelectedTool(found.spec, found.score, SelectionReason.SIMILAR)
            similar += 1
    for name in recent:
        spec = candidates.named(name)
        if spec is not None and name not in chosen:
            chosen[name] = SelectedTool(spec, None, SelectionReason.RECENT)
    return list(chosen.values())[: tool_limit()]
