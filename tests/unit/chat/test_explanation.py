"""A trace in plain words."""

import ast
from pathlib import Path

from chat.models import TurnStatus
from chat.staff.explanation import OUTCOMES, RULES, STEPS, explain_trace
from chat.turn import path as turn
from chat.turn.standalone import follow_up_rule


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
