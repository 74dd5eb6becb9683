"""The tools of a turn: the data for their choice, read with the turn's context, and the choice itself.

`load_tool_ground` is part of the step that claims a turn; it costs no query where nothing changed. `choose_tools` does
not block, unless the mode's ranking reads the database or asks a vector store.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from agents.database import in_database, in_thread
from agents.effective import EffectiveConfig
from chat.thread.rounds import offered_names, recent_tools
from knowledge.embeddings.base import Vectors
from tools_registry.catalog import ToolList, tools_at_hand
from tools_registry.selection import (
    EXACT,
    SelectedTool,
    SelectionReason,
    effective_threshold,
    mode_in_use,
    select_tools,
    tool_limit,
    tool_selector,
)
from tools_registry.tool import ToolSpec

#: The tools of so many last calls stay offered.
RECENT_CALLS = 10


@dataclass(frozen=True, slots=True)
class ToolGround:
    """What the choice starts from: the tools that the user may use, those that the conversation used last, and, where
    the turn goes on after a pause, the names of those it had."""

    candidates: ToolList
    user_id: int | None
    recent: Sequence[str] = ()
    kept: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a turn, chosen once, and for whom they run."""

    selected: tuple[SelectedTool, ...]
    user_id: int | None
    has_threshold: bool = False
    #: Whether all that the user may use is offered.
    is_everything: bool = False
    #: The turn goes on after a pause: it has passed the guard rail, and its round is to be finished.
    is_resumed: bool = False

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.selected)

    @property
    def fits_the_question(self) -> bool:
        """Whether a tool was found for this question, at or above its threshold: the guard rail asks.

        Without a threshold (none was measured for the embedding model) a tool is only the nearest there is, unless the
        question is one of its phrasings.
        """
        found = [tool for tool in self.selected if tool.reason is SelectionReason.SIMILAR]
        return self.is_resumed or any(self.has_threshold or tool.score == EXACT for tool in found)

    def joined(self, other: "Toolbox", *, limit: int) -> "Toolbox":
        """Merge the choice for another reading: each tool at its better score, the best `limit` of those scored."""
        best: dict[str, SelectedTool] = {}
        for tool in (*self.selected, *other.selected):
            known = best.setdefault(tool.spec.name, tool)
            if (tool.score or 0.0) > (known.score or 0.0):
                best[tool.spec.name] = tool
        scored = [tool for tool in best.values() if tool.reason is SelectionReason.SIMILAR]
        scored.sort(key=lambda tool: -(tool.score or 0.0))
        dropped = {tool.spec.name for tool in scored[limit:]}
        kept = tuple(tool for name, tool in best.items() if name not in dropped)
        return replace(self, selected=kept[: tool_limit()])

    def without(self, refused: Collection[ToolSpec]) -> "Toolbox":
        return replace(self, selected=tuple(t for t in self.selected if t.spec not in refused))

    def describe(self) -> str:
        """The tools in words, for staff, in the trace."""
        return ", ".join(
            tool.spec.name if tool.score is None else f"{tool.spec.name} ({tool.score:.3f})" for tool in self.selected
        )


def load_tool_ground(
    *,
    config: EffectiveConfig,
    conversation_id: uuid.UUID,
    user_id: int | None,
    is_first: bool,
    resumed_turn_id: uuid.UUID | None = None,
) -> ToolGround:
    """Read what the choice of tools needs. `user_id` is the owner's, `None` for a visitor."""
    candidates = ToolList()
    if config.tools_enabled:
        candidates = tools_at_hand(user_id=user_id, agent_id=config.agent_id)
    kept = offered_names(resumed_turn_id) if resumed_turn_id else None
    selector = tool_selector(mode_in_use(config, candidates))
    if kept is not None or not candidates or selector is None:
        return ToolGround(candidates, user_id, kept=kept)
    selector.prepare(candidates)
    # Nothing was used before the first question, and a mode that offers every tool has no use for the answer.
    recent = [] if is_first else recent_tools(conversation_id, limit=RECENT_CALLS)
    return ToolGround(candidates, user_id, recent=recent)


async def choose_tools(ground: ToolGround, config: EffectiveConfig, *, vector: Vectors, question: str) -> Toolbox:
    """The tools that this question may use. A turn that goes on after a pause keeps those it had."""
    if ground.kept is not None:
        named = [ground.candidates.named(name) for name in ground.kept]
        tools = [SelectedTool(spec, None, SelectionReason.SIMILAR) for spec in named if spec]
        return Toolbox(tuple(tools), ground.user_id, is_resumed=True)
    selector = tool_selector(mode_in_use(config, ground.candidates))
    if selector is None:
        return _chosen(ground, config, vector, question)
    bridge = in_database if selector.uses_database else in_thread
    return await bridge(_chosen, ground, config, vector, question)


def _chosen(ground: ToolGround, config: EffectiveConfig, vector: Vectors, question: str) -> Toolbox:
    selected = select_tools(
        question_vector=vector, question=question, candidates=ground.candidates, recent=ground.recent, config=config
    )
    return Toolbox(
        tuple(selected),
        ground.user_id,
        has_threshold=effective_threshold(config) is not None,
        is_everything=tool_selector(mode_in_use(config, ground.candidates)) is None,
    )
