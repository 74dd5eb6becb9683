"""The figures and rules of the tool loop (seed 002, sections I and IX), and a trace in plain words."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.settings import KNOBS
from chat.models import TurnStatus
from chat.staff.explanation import OUTCOMES, RULES, STEPS, efficiency_grade, explain_trace
from chat.telemetry import masked
from chat.turn import path as turn
from chat.turn.standalone import follow_up_rule
from chat.turn.tool_loop import efficiency

#: Seed 002, section IX: the five examples.
EXAMPLES = [(0, 0, 100), (1, 1, 95), (3, 3, 85), (5, 5, 75), (10, 10, 50)]


@pytest.mark.parametrize(("rounds", "results", "expected"), EXAMPLES)
def test_efficacite_of_the_examples_of_the_seed(rounds: int, results: int, expected: float) -> None:
    assert efficiency(rounds=rounds, results=results, max_rounds=10) == expected


@given(rounds=st.integers(0, 50), results=st.integers(0, 500), limit=st.integers(1, 50))
def test_efficacite_lies_between_0_and_100(rounds: int, results: int, limit: int) -> None:
    assert 0 <= efficiency(rounds=rounds, results=results, max_rounds=limit) <= 100


@pytest.mark.parametrize(
    ("figure", "grade"),
    [(100, "Excellent"), (90, "Excellent"), (89.9, "Bon"), (70, "Bon"), (69, "Moyen")]
    + [(50, "Moyen"), (49.9, "Critique"), (0, "Critique")],
)
def test_criteres_de_qualite_of_an_efficiency(figure: float, grade: str) -> None:
    assert efficiency_grade(figure) == grade


def test_valeurs_par_defaut_recommandees() -> None:
    names = ("max_tool_calls", "max_rounds", "context_messages", "history_messages")
    assert [KNOBS[name].default for name in names] == [10, 10, 25, 50]


@pytest.mark.parametrize(
    "personal",
    ["Jean", "Élodie", "O’Brien", "jean@example.org", "0612345678", "FR7630006000011234567890189"]
    + ["https://x.example/?token=secret", "12/03/1980", "Saint-Étienne"],
)
def test_pii_masquee_in_excerpts_of_the_log(personal: str) -> None:
    shown = masked(f"bonjour {personal}, je cherche {personal}.")
    assert personal not in shown
    assert shown.startswith("bonjour •••")


def _steps_in_the_path() -> list[ast.Call]:
    """Every call of `trace.step` in the room of the path."""
    modules = sorted(Path(turn.__file__).parent.glob("*.py"))
    trees = [ast.parse(module.read_text(encoding="utf-8")) for module in modules]
    return [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "step"
    ]


def _texts(node: ast.expr) -> set[str]:
    """The literal values an argument can have: a text, or either side of a condition."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body) | _texts(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def test_every_step_and_outcome_of_the_path_has_words() -> None:
    calls = _steps_in_the_path()
    assert len(calls) > 5
    for call in calls:
        (step,) = _texts(call.args[0])
        assert step in STEPS
        for outcome in _texts(call.args[1]):
            assert outcome in OUTCOMES[step], (step, outcome)


def test_every_way_a_turn_ends_has_words() -> None:
    assert set(OUTCOMES["save"]) == set(TurnStatus.values) - {TurnStatus.RUNNING}


def test_rules_of_follow_ups_have_words() -> None:
    questions = ("Et pour 2024 ?", "Pourquoi ?", "Doit-elle payer ?", "Comment faire cela ?")
    assert {follow_up_rule(question) for question in questions} <= set(RULES)


def test_an_unknown_step_is_shown_as_it_is_stored_and_what_is_no_trace_not_at_all() -> None:
    (step,) = explain_trace([{"step": "crystal_ball", "outcome": "hit"}])
    assert (step.title, step.outcome, step.score) == ("crystal_ball", "hit", None)
    assert explain_trace(None) == []
    assert explain_trace({"step": "search"}) == []
    assert explain_trace(["search", {}, {"outcome": "found"}]) == []
