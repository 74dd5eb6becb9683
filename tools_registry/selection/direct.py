"""Mode `direct`: every permitted tool is offered; for a handful of tools nothing cleverer is right."""

from knowledge.embeddings.base import Vectors
from tools_registry.catalog import ToolList
from tools_registry.selection.base import RankedTool, ToolSelector


class DirectToolSelector(ToolSelector):
    ranks = False

    def is_immediate(self, candidates: ToolList) -> bool:
        return True

    def rank(self, *, question_vector: Vectors, question: str, candidates: ToolList, limit: int) -> list[RankedTool]:
        return [RankedTool(spec, 0.0) for spec in candidates][:limit]
