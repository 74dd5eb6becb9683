"""The figures and rules of the tool loop that need no database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.settings import KNOBS
from chat.staff.explanation import efficiency_grade
from chat.telemetry import masked
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
    names = ("max_tool_calls", "max_rounds", "saturation", "context_messages", "history_messages")
    assert [KNOBS[name].default for name in names] == [10, 10, 3, 25, 50]


@pytest.mark.parametrize(
    "personal",
    ["Jean", "Élodie", "O’Brien", "jean@example.org", "0612345678", "FR7630006000011234567890189"]
    + ["https://x.example/?token=secret", "12/03/1980", "Saint-Étienne"],
)
def test_pii_masquee_in_excerpts_of_the_log(personal: str) -> None:
    shown = masked(f"bonjour {personal}, je cherche {personal}.")
    assert personal not in shown
    assert shown.startswith("bonjour •••")
