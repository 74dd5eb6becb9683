"""The explained quality score of a description (seed 003, "Audit Sémantique")."""

from tests.factories import make_tool
from tools_registry.quality import assess_tool

GOOD = make_tool(
    "weather_forecast",
    "Gives the weather forecast of a city for the next seven days, with temperature and rain. "
    "Use it when somebody plans a journey or asks whether it will rain.",
    parameters={"type": "object", "properties": {"city": {"type": "string", "description": "the city's name"}}},
    examples=("Will it rain?", "Do I need a coat?", "How warm is Nice?"),
)


def test_well_described_tool_has_the_full_score() -> None:
    assert assess_tool(GOOD).score == 100


def test_phase_2_every_lost_point_is_explained() -> None:
    bare = make_tool("get_data", "Get data", parameters={"type": "object", "properties": {"q": {}, "n": {}}})
    report = assess_tool(bare)
    text = " ".join(finding.text for finding in report.findings)
    assert report.score == max(0, 100 - sum(finding.points for finding in report.findings))
    assert report.score < 30
    assert "q, n" in text


def test_tool_described_like_another_loses_points() -> None:
    report = assess_tool(GOOD, alike=("rain_radar", 0.93))
    assert report.score == 80
    assert "rain_radar" in report.findings[0].text
    assert assess_tool(GOOD, alike=("rain_radar", 0.5)).score == 100
