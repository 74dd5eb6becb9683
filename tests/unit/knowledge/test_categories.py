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


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Travail", "Travail", "Santé", "Travail"], "Travail"),
        (["Travail", "Santé"], ""),
        (["Santé", "Travail", "Travail"], ""),
        ([], ""),
        ([""], ""),
        (["", "", "Travail"], ""),
    ],
)
def test_category_is_the_one_that_the_passages_agree_on(names: list[str], expected: str) -> None:
    assert detect_category(passages(*names)) == expected


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=9))
def test_detected_category_is_one_of_the_passages(names: list[str]) -> None:
    assert detect_category(passages(*names)) in ("", *names)
