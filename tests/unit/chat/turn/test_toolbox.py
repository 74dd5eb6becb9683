"""The tools of two readings of one question, together."""

from chat.turn.toolbox import Toolbox
from tests.factories import make_tool
from tools_registry.selection import SelectedTool, SelectionReason


def chosen(name: str, score: float | None) -> SelectedTool:
    reason = SelectionReason.RESIDENT if score is None else SelectionReason.SIMILAR
    return SelectedTool(make_tool(name), score, reason)


def test_each_tool_counts_at_its_better_score_and_the_best_are_kept() -> None:
    first = Toolbox((chosen("clock", None), chosen("rights", 0.3), chosen("mail", 0.4)), 7)
    second = Toolbox((chosen("clock", None), chosen("rights", 0.9), chosen("map", 0.2)), 7)
    together = first.joined(second, limit=2)
    assert {tool.spec.name: tool.score for tool in together.selected} == {"clock": None, "rights": 0.9, "mail": 0.4}
    assert together.user_id == 7
