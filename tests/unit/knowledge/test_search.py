"""What a search result answers, at and beside each threshold."""

from dataclasses import replace

import pytest

from knowledge.payloads import Passage, PointType
from knowledge.search import SearchResult, Thresholds

HIT = Passage(
    point_id="a",
    type=PointType.QA_PAIR,
    score=0.5,
    content="12 euros",
    question="Combien ?",
    title="Guide",
    parent_context="",
    category="",
    summary="",
    document_id=1,
    chunk_id=1,
    has_questions=True,
)
SOURCE = replace(HIT, point_id="b", type=PointType.SOURCE_MATERIAL, question="", score=0.4)


@pytest.mark.parametrize(("threshold", "count"), [(0.49, 1), (0.5, 1), (0.51, 0), (None, 0)])
def test_direct_threshold_is_inclusive(threshold: float | None, count: int) -> None:
    assert len(SearchResult((HIT, SOURCE)).direct_candidates(threshold)) == count


@pytest.mark.parametrize(("threshold", "refused"), [(0.49, False), (0.5, False), (0.51, True)])
def test_guard_rail_is_inclusive(threshold: float, refused: bool) -> None:
    thresholds = Thresholds(
        direct_answer=None, guard_rail=threshold, guard_rail_questions=threshold
    )
    assert SearchResult((HIT,)).is_out_of_domain(thresholds) is refused


def test_chunk_with_questions_is_held_to_its_own_guard_rail() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=0.2, guard_rail_questions=0.48)
    asked, waiting = replace(SOURCE, score=0.4), replace(SOURCE, score=0.2, has_questions=False)
    assert SearchResult((asked,)).is_out_of_domain(thresholds)
    assert SearchResult((asked, waiting)).in_domain(thresholds).hits == (waiting,)


def test_nothing_found_is_out_of_domain_also_without_a_threshold() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=None)
    assert SearchResult().is_out_of_domain(thresholds)
    assert not SearchResult((HIT,)).is_out_of_domain(thresholds)


def test_passages_are_the_best_hit_of_each_chunk() -> None:
    other = replace(SOURCE, point_id="c", chunk_id=2, score=0.3)
    assert SearchResult((HIT, SOURCE, other)).passages(5) == [HIT, other]
    assert SearchResult((HIT, SOURCE, other)).passages(1) == [HIT]
