"""Which agent answers: two signs, their margins at the boundary, and the default."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chat.turn.dispatch import (
    DISPATCH_MARGINS,
    UNMEASURED_MARGINS,
    Margins,
    choose_agent,
    description_lines,
    margins_of,
    nearness,
)

MARGINS = Margins(index=0.125, description=0.25)
scores = st.lists(st.floats(-1, 2, width=32), min_size=2, max_size=6)


def test_index_that_leads_by_the_margin_decides() -> None:
    choice = choose_agent([0.5, 0.625], [0.9, 0.1], MARGINS)
    assert (choice.position, choice.by) == (1, "index")


def test_below_the_margin_the_nearest_description_decides() -> None:
    choice = choose_agent([0.5, 0.6], [0.25, 0.0], MARGINS)
    assert (choice.position, choice.by) == (0, "description")


def test_without_a_clear_sign_the_default_agent_answers() -> None:
    choice = choose_agent([0.5, 0.6], [0.2, 0.4], MARGINS)
    assert (choice.position, choice.by) == (0, "default")


def test_indexes_that_hold_nothing_are_no_sign() -> None:
    choice = choose_agent([-0.5, 0.0], [0.0, 0.5], MARGINS)
    assert (choice.position, choice.by) == (1, "description")


@given(scores)
def test_an_agent_other_than_the_default_leads_by_a_margin(relevance: list[float]) -> None:
    choice = choose_agent(relevance, [0.0] * len(relevance), MARGINS)
    if choice.position:
        others = [score for at, score in enumerate(relevance) if at != choice.position]
        assert relevance[choice.position] - max(others) >= MARGINS.index


def test_agent_is_as_near_as_its_nearest_line() -> None:
    rows = [np.array([[1, 0], [0, 1]], dtype=np.float32), np.array([[0.6, 0.8]], dtype=np.float32)]
    assert nearness(np.array([0, 1], dtype=np.float32), rows) == [1.0, np.float32(0.8)]


def test_description_is_read_line_by_line_and_a_missing_one_is_the_name() -> None:
    assert description_lines("CNIL", "- Cookies\n\n* Fichiers") == ("Cookies", "Fichiers")
    assert description_lines("CNIL", " \n") == ("CNIL",)


def test_staffs_margin_stands_for_the_index_and_an_unknown_model_is_careful() -> None:
    known = next(iter(DISPATCH_MARGINS))
    assert margins_of(known, 0.3) == Margins(0.3, DISPATCH_MARGINS[known].description)
    assert margins_of("unknown", None) == UNMEASURED_MARGINS
