"""The figures and rules of the tool loop that need no database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.tool_loop import efficiency

#: Seed 002, section IX: the five examples.
EXAMPLES = [
    (0, 0, 100),
    (1, 1, 95),
    (3, 3, 85),
    (5, 5, 75),
    (10, 10, 50),
]


@pytest.mark.parametrize(("rounds", "results", "expected"), EXAMPLES)
def test_efficacite_of_the_examples_of_the_seed(rounds: int, results: int, expected: float) -> None:
    assert efficiency(rounds=rounds, results=results, max_rounds=10) == expected


@given(rounds=st.integers(0, 50), results=st.integers(0, 500), limit=st.integers(1, 50))
def test_efficacite_lies_between_0_and_100(rounds: int, results: int, limit: int) -> None:
    assert 0 <= efficiency(rounds=rounds, results=results, max_rounds=limit) <= 100
