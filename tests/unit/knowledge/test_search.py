"""What a search result answers, at and beside each threshold, and the category that passages agree on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search import SearchResult, Thresholds, best_of, detect_category, ranked
from knowledge.vectors.payloads import PointType
from tests.factories import make_passage

HIT = make_passage("12 euros", point_id="a", type=PointType.QA_PAIR, score=0.5, question="Combien ?", title="Guide")
SOURCE = replace(HIT, point_id="b", type=PointType.SOURCE_MATERIAL, question="", score=0.4)


@pytest.mark.parametrize(("threshold", "count"), [(0.49, 1), (0.5, 1), (0.51, 0), (None, 0)])
def test_direct_threshold_is_inclusive(threshold: float | None, count: int) -> None:
    assert len(SearchResult((HIT, SOURCE)).direct_candidates(threshold)) == count


@pytest.mark.parametrize(("threshold", "refused"), [(0.49, False), (0.5, False), (0.51, True)])
def test_guard_rail_is_inclusive(threshold: float, refused: bool) -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=threshold, guard_rail_questions=threshold)
    assert SearchResult((HIT,)).is_out_of_domain(thresholds) is refused


def test_question_and_passage_are_held_to_their_own_guard_rails() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=0.2, guard_rail_questions=0.48)
    asked, source = replace(HIT, score=0.4), replace(SOURCE, score=0.2)
    assert SearchResult((asked,)).is_out_of_domain(thresholds)
    assert SearchResult((asked, source)).in_domain(thresholds).hits == (source,)


def test_nothing_found_is_out_of_domain_also_without_a_threshold() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=None)
    assert SearchResult().is_out_of_domain(thresholds)
    assert not SearchResult((HIT,)).is_out_of_domain(thresholds)


def test_passages_are_the_best_hit_of_each_chunk() -> None:
    other = replace(SOURCE, point_id="c", chunk_id=2, score=0.3)
    assert SearchResult((HIT, SOURCE, other)).passages(5) == [HIT, other]
    assert SearchResult((HIT, SOURCE, other)).passages(1) == [HIT]


def test_words_bring_a_chunk_before_a_nearer_one() -> None:
    nearer = replace(SOURCE, point_id="c", chunk_id=2, score=0.5)
    said = replace(SOURCE, score=0.4, overlap=0.5)
    found = ranked([nearer, said], "", 0.6).passages(5)
    assert [hit.point_id for hit in found] == ["b", "c"]
    assert [hit.relevance for hit in found] == pytest.approx([0.7, 0.5])
    assert ranked([nearer, said], "", 0.0).passages(1)[0].point_id == "c"


def test_chunk_is_judged_by_its_nearest_point_and_its_best_words() -> None:
    asked = replace(HIT, score=0.6, overlap=0.1)
    source = replace(SOURCE, score=0.3, overlap=0.6)
    other_question = replace(HIT, point_id="q", score=0.4)
    found = ranked([source, other_question, asked], "", 1.0)
    assert [hit.relevance for hit in found.hits] == pytest.approx([1.2] * 3)
    assert [hit.point_id for hit in found.hits] == ["a", "q", "b"]
    assert found.best_score == 0.6


def test_closeness_counts_every_word_of_the_question_alike() -> None:
    thresholds = Thresholds(None, guard_rail=0.6, guard_rail_questions=0.6, coverage_weight=0.4)
    said = replace(SOURCE, title="Piscine", content="Le bassin ouvre à 9 heures.", score=0.4)
    (hit,) = ranked([said], "À quelle heure ouvre la piscine ?", 0.6).hits
    assert hit.coverage == 1.0
    assert thresholds.closeness(hit) == pytest.approx(0.8)
    (other,) = ranked([said], "Où garer un vélo ?", 0.6).hits
    assert other.coverage == 0.0
    assert SearchResult((other,)).is_out_of_domain(thresholds)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.text("abc ", max_size=9)), max_size=6))
def test_further_hits_refuse_no_question_that_was_answered(drawn: list[tuple[float, float, str]]) -> None:
    thresholds = Thresholds(None, guard_rail=0.5, guard_rail_questions=0.9, coverage_weight=0.4)
    source = replace(SOURCE, content="Le bassin ouvre à 9 heures.", score=0.4)
    others = [
        replace(HIT, point_id=f"x{at}", chunk_id=at + 9, score=score, overlap=overlap, question=text)
        for at, (score, overlap, text) in enumerate(drawn)
    ]
    asked = "Quand ouvre le bassin ?"
    assert not ranked([source], asked, 0.6).is_out_of_domain(thresholds)
    assert not ranked([*others, source], asked, 0.6).is_out_of_domain(thresholds)


def test_each_hit_keeps_its_most_relevant_reading() -> None:
    one = SearchResult((replace(SOURCE, relevance=0.4), replace(HIT, chunk_id=2, relevance=0.5)))
    other = SearchResult((replace(SOURCE, relevance=0.6),))
    assert [(hit.point_id, hit.relevance) for hit in best_of([one, other]).hits] == [("b", 0.6), ("a", 0.5)]


def test_direct_candidates_are_in_the_order_of_cosines_and_words_make_none() -> None:
    nearest = replace(HIT, point_id="c", chunk_id=2, score=0.9)
    worded = replace(HIT, score=0.85, overlap=0.9)
    said = replace(HIT, point_id="d", chunk_id=3, score=0.5, overlap=0.9)
    found = ranked([nearest, worded, said], "", 1.0)
    assert [hit.point_id for hit in found.hits] == ["a", "d", "c"]
    assert [hit.point_id for hit in found.direct_candidates(0.8)] == ["c", "a"]


def test_legacy_points_of_one_place_are_one_chunk() -> None:
    legacy = replace(SOURCE, chunk_id=None, chunk_index=3)
    other = replace(legacy, point_id="d", chunk_index=4)
    assert legacy.chunk_key != other.chunk_key
    assert replace(legacy, point_id="e").chunk_key == legacy.chunk_key


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
    assert detect_category([replace(SOURCE, category=name) for name in names]) == expected
