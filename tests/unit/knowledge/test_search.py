"""What a search result answers, at and beside each threshold."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.settings import CategoryUse
from knowledge.search import SearchResult, Thresholds, best_of, ranked, with_category
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
    thresholds = Thresholds(direct_answer=None, guard_rail=threshold, guard_rail_questions=threshold)
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


def on_page(page: int, chunk: int, score: float, path: str = "Guide") -> Passage:
    return replace(
        SOURCE, point_id=f"{page}-{chunk}", document_id=page, chunk_id=chunk, score=score, parent_context=path
    )


def test_page_with_several_near_passages_comes_before_one_with_a_single_nearer_one() -> None:
    alone, first, second = on_page(1, 1, 0.51), on_page(2, 2, 0.5), on_page(2, 3, 0.45)
    far = on_page(3, 4, 0.2)
    found = ranked([alone, first, second, far], lexical_weight=0.6)
    assert [hit.chunk_id for hit in found.hits] == [2, 1, 3, 4]
    assert [hit.relevance for hit in found.hits] == [0.5, 0.51, 0.45, 0.2]
    assert found.best_relevance == 0.51


def test_other_parts_of_a_long_document_support_nothing() -> None:
    alone = on_page(1, 1, 0.51)
    other = [on_page(2, 2, 0.5, "I > 1"), on_page(2, 3, 0.45, "II > 1"), on_page(3, 4, 0.2)]
    assert ranked([alone, *other], lexical_weight=0.6).hits[0].chunk_id == 1


def test_validated_answer_is_not_overtaken_for_want_of_neighbours() -> None:
    answer = replace(HIT, point_id="f", document_id=None, chunk_id=None, score=0.51, is_faq=True)
    page = [on_page(2, 2, 0.5), on_page(2, 3, 0.45), on_page(3, 4, 0.2)]
    assert ranked([*page, answer], lexical_weight=0.6).hits[0].is_faq


def test_validated_answer_passes_a_nearer_passage_only_with_a_page_that_does() -> None:
    answer = replace(HIT, point_id="f", document_id=None, chunk_id=None, score=0.49, is_faq=True)
    alone, far = on_page(1, 1, 0.55), on_page(3, 4, 0.1)
    page = [on_page(2, 2, 0.45), on_page(2, 3, 0.44)]
    found = ranked([answer, alone, *page, far], lexical_weight=0.6).hits
    assert [hit.point_id for hit in found][:3] == ["f", "2-2", "1-1"]
    page = [on_page(2, 2, 0.4), on_page(2, 3, 0.39)]
    found = ranked([answer, alone, *page, far], lexical_weight=0.6).hits
    assert [hit.point_id for hit in found][:3] == ["1-1", "f", "2-2"]


def test_hit_that_is_far_from_anything_lifts_no_page() -> None:
    page = [on_page(2, 2, 0.5), on_page(2, 3, 0.49)]
    found = ranked([on_page(1, 1, 0.63), *page, on_page(3, 4, -0.5)], lexical_weight=0.6)
    assert found.hits[0].chunk_id == 1


def test_reading_in_which_a_passage_stands_alone_takes_no_support_away() -> None:
    one = ranked([on_page(1, 1, 0.5), on_page(1, 2, 0.45), on_page(2, 3, 0.55)], 0.6)
    far = on_page(3, 4, 0.1)
    one = ranked([*one.hits, far], 0.6)
    assert one.hits[0].chunk_id == 1
    merged = best_of([one, ranked([on_page(1, 1, 0.51), far], 0.6)])
    assert [hit.chunk_id for hit in merged.hits][:2] == [1, 3]
    assert merged.hits[0].relevance == pytest.approx(0.51)


def test_one_of_two_equal_passages_is_supported_whichever_came_first() -> None:
    hits = [on_page(1, 1, 0.5), on_page(1, 2, 0.5), on_page(2, 3, 0.5), on_page(2, 4, 0.3)]
    orders = [[hit.point_id for hit in ranked(drawn, 0.6).hits] for drawn in permutations(hits)]
    assert all(order == orders[0] for order in orders)


def test_passages_of_the_legacy_format_say_not_where_they_stand() -> None:
    legacy = [replace(on_page(2, n, 0.5), type=PointType.LEGACY, parent_context="") for n in (2, 3)]
    found = ranked([on_page(1, 1, 0.51), *legacy, on_page(3, 4, 0.1)], lexical_weight=0.6)
    assert found.hits[0].chunk_id == 1


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=12))
def test_passages_of_one_section_stay_in_the_order_of_their_relevance(drawn: list[tuple[int, str, int]]) -> None:
    hits = [on_page(page, at, score / 10, path) for at, (page, path, score) in enumerate(drawn)]
    found = ranked(hits, lexical_weight=0.6).hits
    assert sorted(hit.point_id for hit in found) == sorted(hit.point_id for hit in hits)
    for section in {hit.section_key for hit in found}:
        of_it = [hit.relevance for hit in found if hit.section_key == section]
        assert of_it == sorted(of_it, reverse=True)


def test_chunk_of_one_kind_of_point_is_judged_by_it_alone() -> None:
    assert ranked([SOURCE], lexical_weight=1.0).hits == (SOURCE,)


def test_guard_rail_is_held_to_the_relevance() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=0.7, guard_rail_questions=0.7)
    words = ranked([replace(SOURCE, score=0.4, overlap=0.5)], lexical_weight=0.6)
    assert not words.is_out_of_domain(thresholds)
    assert ranked([SOURCE], lexical_weight=0.6).is_out_of_domain(thresholds)


def test_guard_rail_of_questions_is_held_to_the_nearest_question_as_well() -> None:
    thresholds = Thresholds(direct_answer=None, guard_rail=0.9, guard_rail_questions=0.5)
    asked = replace(HIT, has_questions=True, score=0.3, overlap=0.5)
    found = ranked([asked], lexical_weight=0.8)
    assert found.hits[0].relevance == pytest.approx(0.7)
    assert found.nearness(found.hits[0]) == pytest.approx(0.5)
    assert not found.is_out_of_domain(thresholds)
    further = ranked([replace(asked, score=0.29)], lexical_weight=0.8)
    assert further.is_out_of_domain(thresholds)
    waiting = replace(found.hits[0], has_questions=False)
    assert SearchResult((waiting,)).nearness(waiting) == pytest.approx(0.7)


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


def in_categories(*names: str) -> SearchResult:
    """Hits of one chunk each, a tenth apart."""
    return SearchResult(
        tuple(
            replace(HIT, point_id=f"{at}", chunk_id=at, category=name, score=0.9 - at / 10)
            for at, name in enumerate(names)
        )
    )


def used(found: SearchResult, use: str, within: SearchResult | None = None) -> list[str]:
    """The points in their order, after the use of the category that was asked for."""

    def search_in(name: str) -> SearchResult:
        assert within is not None, f"{name} was searched"
        return within

    result = with_category(found, use, limit=6, search_in=search_in)
    assert result.best_relevance == (within or found).best_relevance
    return [hit.point_id for hit in result.hits]


def test_detected_category_is_put_forward_by_a_part_of_the_distance() -> None:
    found = in_categories("Travail", "Travail", "Santé", "Travail", "Santé", "Travail")
    assert used(found, CategoryUse.BOOST) == ["0", "1", "3", "2", "5", "4"]
    assert used(found, CategoryUse.INFORM) == ["0", "1", "2", "3", "4", "5"]


def test_validated_answer_stands_beside_the_detected_category() -> None:
    found = in_categories("Travail", "Travail", "Santé", "Travail", "FAQ")
    hits = (*found.hits[:4], replace(found.hits[4], is_faq=True))
    assert used(SearchResult(hits), CategoryUse.BOOST) == ["0", "1", "3", "2", "4"]
    assert used(SearchResult((*hits[:2], replace(hits[2], score=0.51), hits[4])), "boost") == [*("0", "1", "4", "2")]


def test_filter_searches_the_detected_category_once_more() -> None:
    found = in_categories("Travail", "Travail", "Santé")
    within = in_categories("Travail", "Travail", "Travail", "Travail")
    assert used(found, CategoryUse.FILTER, within) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("use", [CategoryUse.BOOST, CategoryUse.FILTER])
@pytest.mark.parametrize(
    "names", [(), ("Travail", "Santé", "Santé"), ("", "", "Santé"), ("FAQ", "FAQ", "FAQ", "Santé")]
)
def test_without_one_category_of_documents_nothing_changes(use: str, names: tuple[str, ...]) -> None:
    found = in_categories(*names)
    assert used(found, use) == [hit.point_id for hit in found.hits]
