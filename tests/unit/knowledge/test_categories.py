"""Which category the found passages agree on."""

from dataclasses import replace

import pytest

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
