"""What would be offered for a question: the production selection, with the scores of everything around it. Writes
nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.embeddings.base import Purpose, embedder
from tools_registry.catalog import ToolList, all_tools, available_tools
from tools_registry.selection.base import (
    SelectedTool,
    SelectionConfig,
    effective_threshold,
    mode_in_use,
    select_tools,
    tool_selector,
)
from tools_registry.tool import ToolSpec

#: Tools shown with their score, offered or not.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class ScoredTool:
    """`reason` is empty for a tool that is not offered."""

    spec: ToolSpec
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Simulation:
    mode: str
    threshold: float | None
    top_k: int
    scored: Sequence[ScoredTool]
    walled: Sequence[tuple[ToolSpec, Sequence[str]]]
    sent: str


def simulate_selection(
    question: str, *, tags: frozenset[str], agent_id: int | None, config: SelectionConfig
) -> Simulation:
    """Select for `question` as a turn does, and rank what was not selected too."""
    vector = embedder().embed_one(question, purpose=Purpose.QUERY)
    candidates = available_tools(user_tags=tags, agent_id=agent_id)
    mode = mode_in_use(config, candidates)
    selector = tool_selector(mode)
    selector.prepare(candidates)
    chosen = select_tools(question_vector=vector, question=question, candidates=candidates, config=config)
    scores: dict[str, float] = {}
    if selector.ranks:
        ranked = selector.rank(question_vector=vector, question=question, candidates=candidates, limit=SHOWN)
        scores = {found.spec.name: found.score for found in ranked}
    return Simulation(
        mode=mode,
        threshold=effective_threshold(config) if selector.ranks else None,
        top_k=config.tool_top_k,
        scored=_scored(chosen, scores, candidates),
        walled=[(spec, sorted(spec.tags - tags)) for spec in all_tools() if not spec.tags <= tags],
        sent=json.dumps([found.spec.as_function() for found in chosen], ensure_ascii=False, indent=2),
    )


def _scored(chosen: Sequence[SelectedTool], scores: dict[str, float], candidates: ToolList) -> list[ScoredTool]:
    offered = {
        found.spec.name: ScoredTool(found.spec, scores.get(found.spec.name, found.score), found.reason.value)
        for found in chosen
    }
    others = [
        ScoredTool(spec, score, "")
        for name, score in scores.items()
        if name not in offered and (spec := candidates.named(name)) is not None
    ]
    return sorted(
        [*offered.values(), *others],
        key=lambda tool: (-(tool.score if tool.score is not None else 9.0), tool.spec.name),
    )
