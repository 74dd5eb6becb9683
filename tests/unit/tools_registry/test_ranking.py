"""The pure half of selection: vectors, words, the rules around them, and the quality of a description."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_tool
from tools_registry.evaluation import assess_tool
from tools_registry.index import TextKind, spoken_name, texts_of, tool_vector
from tools_registry.selection import WordIndex, best_positions


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("MapTool_find-route", "Map Tool find route"),
        ("getHTTPStatus", "get HTTP Status"),
        ("C3_Glide", "C3 Glide"),
        ("___", "___"),
    ],
)
def test_names_are_spoken_as_words(name: str, spoken: str) -> None:
    assert spoken_name(name) == spoken


def test_texts_hold_every_effective_description() -> None:
    spec = make_tool(
        "find_route",
        "Finds a way.",
        keywords=("itinéraire",),
        examples=("How do I get there?", "How do I get there?", " "),
        parameters={"type": "object", "properties": {"to": {"type": "string", "description": "where to"}, "by": {}}},
    )
    assert [(text.kind, text.text) for text in texts_of(spec)] == [
        (TextKind.DESCRIPTION, "Finds a way."),
        (TextKind.NAME, "find route itinéraire"),
        (TextKind.PARAMETERS, "to: where to"),
        (TextKind.EXAMPLE, "How do I get there?"),
    ]


def test_number_of_examples_does_not_change_their_weight() -> None:
    rows = np.eye(3, dtype=np.float32)
    one = tool_vector([TextKind.DESCRIPTION, TextKind.EXAMPLE], rows[:2])
    two = tool_vector([TextKind.DESCRIPTION, TextKind.EXAMPLE, TextKind.EXAMPLE], rows[[0, 1, 1]])
    assert np.allclose(one, two)


def test_shared_rare_word_counts_more_than_a_common_one() -> None:
    words = WordIndex(
        [
            make_tool("a", "converts currency amounts"),
            make_tool("b", "converts text"),
            make_tool("c", "converts pictures"),
        ]
    )
    scores = words.scores("converts currency")
    assert scores[0] > scores[1] > 0
    assert words.scores("zebra").tolist() == [0, 0, 0]


@given(st.lists(st.floats(-1, 1, width=32), max_size=40), st.integers(min_value=-1, max_value=45))
def test_best_positions_are_those_of_a_full_sort(values: list[float], limit: int) -> None:
    scores = np.array(values, dtype=np.float32)
    expected = sorted(range(len(values)), key=lambda i: (-scores[i], i))[: max(limit, 0)]
    assert best_positions(scores, limit) == expected


@pytest.mark.parametrize(
    ("question", "tool"),
    [
        ("Renomme a.txt en b.txt", "move_file"),
        ("Retiens que Marie aime le thé", "add_observations"),
        ("Oublie tout sur Paul", "delete_entities"),
        ("Quelle heure est-il à Tokyo ?", "get_current_time"),
        ("Discard everything about Paul, forget him", "delete_entities"),
    ],
)
def test_words_of_one_language_find_descriptions_in_the_other(question: str, tool: str) -> None:
    tools = [
        make_tool("move_file", "Move files and directories."),
        make_tool("add_observations", "Add new observations to entities of the knowledge graph."),
        make_tool("delete_entities", "Delete entities and their relations."),
        make_tool("get_current_time", "Get current time in a specific timezone."),
        make_tool("git_status", "Shows the working tree status."),
    ]
    scores = WordIndex(tools).scores(question)
    assert tools[int(np.argmax(scores))].name == tool


def test_meaning_counts_only_where_no_tool_has_the_word() -> None:
    tools = [make_tool("rename", "Rename a thing."), make_tool("move", "Move a thing.")]
    scores = WordIndex(tools).scores("rename it")
    assert scores[0] > 0
    assert scores[1] == 0


GOOD = make_tool(
    "weather_forecast",
    "Gives the weather forecast of a city for the next seven days, with temperature and rain. "
    "Use it when somebody plans a journey or asks whether it will rain.",
    parameters={"type": "object", "properties": {"city": {"type": "string", "description": "the city's name"}}},
    examples=("Will it rain?", "Do I need a coat?", "How warm is Nice?"),
)


def test_well_described_tool_has_the_full_score() -> None:
    assert assess_tool(GOOD) == (100, [])


def test_phase_2_every_lost_point_is_explained() -> None:
    bare = make_tool("get_data", "Get data", parameters={"type": "object", "properties": {"q": {}, "n": {}}})
    score, findings = assess_tool(bare)
    text = " ".join(finding.text for finding in findings)
    assert score == max(0, 100 - sum(finding.points for finding in findings))
    assert score < 30
    assert "q, n" in text
