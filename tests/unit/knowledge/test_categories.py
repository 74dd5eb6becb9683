"""Which category the found passages agree on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search import detect_category
from knowledge.vectors.payloads import Passage, PointType

PASSAGE = Passage(
    point_id="a",
    type=PointType.SOURCE_MATERIAL,
    score=0.5,
    content="",
    question="",
    title="",
    parent_context="",
    category="",
    summary="",
    document_id=1,
    chunk_id=1,
)


def passages(*names: str) -> list[Passage]:
    return [replace(PASSAGE, category=name) for name in names]


def test_category_of_most_passages_is_detected() -> None:
    found = detect_category(passages("Travail", "Travail", "Santé", "Travail"))
    assert found is not None
    assert found.name == "Travail"
    assert found.margin < found.share < 1


def test_better_passages_have_more_votes() -> None:
    assert detect_category(passages("Santé", "Travail", "Travail"), least_margin=0).name == "Santé"  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [[], [""], ["", "", "Travail"], ["Travail", "Santé"]])
def test_passages_that_do_not_agree_have_no_category(names: list[str]) -> None:
    assert detect_category(passages(*names)) is None


def test_limits_are_inclusive() -> None:
    pair = passages("Travail", "Santé")
    assert detect_category(pair, least_share=2 / 3, least_margin=0) is not None
    assert detect_category(pair, least_share=0.67, least_margin=0) is None


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=9))
def test_detected_category_is_one_of_the_passages(names: list[str]) -> None:
    found = detect_category(passages(*names), least_share=0, least_margin=0)
    assert found is None or (found.name in names and 0 <= found.margin <= found.share <= 1)
