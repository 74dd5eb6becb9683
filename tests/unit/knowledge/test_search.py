"""What a search result answers, at and beside each threshold."""

from dataclasses import replace

import pytest

from knowledge.search import SearchResult, Thresholds, ranked
from knowledge.vectors.payloads import Passage, PointType

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


def test_words_lift_a_chunk_over_a_nearer_one() -> None:
    nearer = replace(SOURCE, point_id="c", chunk_id=2, score=0.5)
    said = replace(SOURCE, score=0.4, overlap=0.5)
    found = ranked([nearer, said], lexical_weight=0.6).passages(5)
    assert [hit.point_id for hit in found] == ["b", "c"]
    assert [hit.relevance for hit in found] == pytest.approx([0.7, 0.5])
    assert ranked([nearer, said], lexical_weight=0.0).passages(1) == [nearer]


def test_chunk_is_judged_by_its_question_and_its_text_and_its_best_words() -> None:
    asked = replace(HIT, score=0.6, overlap=0.1)
    source = replace(SOURCE, score=0.3, overlap=0.6)
    other_question = replace(HIT, point_id="q", score=0.4)
    found = ranked([source, other_question, asked], lexical_weight=1.0)
    assert [hit.relevance for hit in found.hits] == pytest.approx([1.1] * 3)
    assert [hit.point_id for hit in found.hits] == ["a", "q", "b"]
    assert found.best_score == 0.6
    assert found.best_relevance == pytest.approx(1.1)


def test_chunk_of_one_kind_of_point_is_judged_by_it_alone() -> None:
    assert ranked([SOURCE], lexical_weight=1.0).hits == (SOURCE,)


def test_guard_rail_is_held_to_the_relevance() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=0.7, guard_rail_questions=0.7)
    words = ranked([replace(SOURCE, score=0.4, overlap=0.5)], lexical_weight=0.6)
    assert not words.is_out_of_domain(thresholds)
    assert ranked([SOURCE], lexical_weight=0.6).is_out_of_domain(thresholds)


def test_words_never_make_a_direct_answer() -> None:
    found = ranked([replace(HIT, score=0.5, overlap=0.9)], lexical_weight=1.0)
    assert not found.direct_candidates(0.8)


def test_direct_candidates_are_in_the_order_of_cosines() -> None:
    nearest = replace(HIT, point_id="c", chunk_id=2, score=0.9)
    worded = replace(HIT, score=0.85, overlap=0.9)
    found = ranked([nearest, worded], lexical_weight=1.0)
    assert [hit.point_id for hit in found.hits] == ["a", "c"]
    assert [hit.point_id for hit in found.direct_candidates(0.8)] == ["c", "a"]


def test_legacy_points_of_one_place_are_one_chunk() -> None:
    legacy = replace(SOURCE, chunk_id=None, chunk_index=3)
    other = replace(legacy, point_id="d", chunk_index=4)
    assert legacy.chunk_key != other.chunk_key
    assert replace(legacy, point_id="e").chunk_key == legacy.chunk_key
