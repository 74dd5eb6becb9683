"""Words: what counts as the same one, and the index of words against a plain loop over all points."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.vectors.bm25 import MAX_QUESTION_WORDS, Terms, content_words, document_terms, question_terms, word_terms
from knowledge.vectors.matrix import Matrix, rank_hybrid

VOCABULARY = ("chat", "chien", "loup", "poule", "oeuf", "plume", "patte", "2024", "chaton")
texts = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=8).map(" ".join)


def stems(text: str) -> set[int]:
    return {word_terms(word)[0][0] for word in content_words(text)}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("la sécurité", "LA SECURITE"),
        ("les délégués désignés", "un délégué désigné"),
        ("conserver les données", "conservation d’une donnée"),
        ("the cookies were refused", "refusing a cookie"),
        ("l'école", "les écoles"),
        ("œuvres", "oeuvre"),
        ("ﬁchier", "fichiers"),
        ("0475641010", "04 75 64 10 10"),
        ("1200 euros", "1 200 euros"),
    ],
)
def test_forms_of_a_word_are_one_term(one: str, two: str) -> None:
    assert stems(one) <= stems(two)


@pytest.mark.parametrize("text", ["Est-ce que je peux le faire ?", "what is it for", " ?! ", ""])
def test_words_without_content_are_left_out(text: str) -> None:
    assert content_words(text) == []
    assert not len(question_terms(text))


def test_typo_at_the_end_still_shares_the_root() -> None:
    right, wrong = question_terms("vidéosurveillance"), question_terms("vidéosurveilance")
    assert set(right.ids.tolist()) & set(wrong.ids.tolist())


def test_very_long_question_is_bounded() -> None:
    many = " ".join(f"mot{n}" for n in range(10 * MAX_QUESTION_WORDS))
    assert len(question_terms(many)) <= 2 * MAX_QUESTION_WORDS


def test_answer_counts_less_than_its_question() -> None:
    asked = document_terms({"question": "chat", "display_text": "chien"})
    weight = dict(zip(asked.ids.tolist(), asked.weights.tolist(), strict=True))
    assert weight[word_terms("chat")[0][0]] > weight[word_terms("chien")[0][0]] > 0


def test_both_payload_formats_are_searched() -> None:
    atomic = document_terms({"display_text": "chat", "parent_context": "loup", "chunk_id": 3})
    legacy = document_terms({"content": "chat", "document_title": "loup", "keywords": ["x"]})
    assert atomic.ids.tolist() == legacy.ids.tolist()


def naive_overlap(question: str, document: str, all_documents: list[str]) -> float:
    """BM25 over what the question's words could reach, word by word."""
    asked = {term: weight for word in content_words(question) for term, weight in word_terms(word)}
    said = [term for word in content_words(document) for term, _ in word_terms(word)]
    length = len(content_words(document))
    norm = 0.9 * (0.5 + 0.5 * length / 100)
    reached = possible = 0.0
    for term, weight in asked.items():
        having = sum(
            any(term == t for word in content_words(other) for t, _ in word_terms(word)) for other in all_documents
        )
        rare = math.log(1 + (len(all_documents) - having + 0.5) / (having + 0.5))
        count = said.count(term)
        reached += weight * rare * float(np.float16(count / (count + norm)))
        possible += weight * rare
    return reached / possible if possible else 0.0


@given(texts, st.lists(texts, min_size=1, max_size=12), st.data())
def test_overlap_is_bm25_whatever_the_order_of_writes(question: str, documents: list[str], data: st.DataObject) -> None:
    removed = data.draw(st.sets(st.integers(0, len(documents) - 1), max_size=len(documents) - 1))
    matrix: Matrix[int] = Matrix(1)
    for key, text in enumerate(documents):
        matrix.apply(keys=[key], rows=np.ones((1, 1), np.float32), terms=[terms_of(text)])
    matrix.apply(keys=[], rows=np.empty((0, 1), np.float32), removed=removed)
    standing = {key: text for key, text in enumerate(documents) if key not in removed}
    found = matrix.snapshot().top(
        np.ones(1, np.float32), question_terms(question), lexical_weight=1, limit=len(documents)
    )
    expected = {key: naive_overlap(question, text, list(standing.values())) for key, text in standing.items()}
    assert {key: overlap for key, _, overlap in found} == pytest.approx(expected, abs=1e-5)
    assert all(0 <= overlap < 1 for _, _, overlap in found)
    ranks = [-overlap for _, _, overlap in found]
    assert ranks == sorted(ranks)


def terms_of(text: str) -> Terms:
    return document_terms({"content": text})


def test_snapshot_keeps_its_words_when_the_matrix_changes() -> None:
    matrix: Matrix[int] = Matrix(1)
    matrix.apply(keys=[1], rows=np.ones((1, 1), np.float32), terms=[terms_of("chat")])
    before = matrix.snapshot()
    matrix.apply(keys=[1, 2], rows=np.ones((2, 1), np.float32), terms=[terms_of("loup")] * 2)
    asked, row = question_terms("chat"), np.ones(1, np.float32)
    assert before.top(row, asked, lexical_weight=1, limit=5)[0][2] > 0
    now = matrix.snapshot().top(row, asked, lexical_weight=1, limit=5)
    assert [overlap for _, _, overlap in now] == [0, 0]


def test_words_stay_right_when_dead_rows_are_dropped() -> None:
    matrix: Matrix[int] = Matrix(1)
    keys = list(range(3_000))
    rows = np.ones((len(keys), 1), np.float32)
    matrix.apply(keys=keys, rows=rows, terms=[terms_of(f"mot{key}") for key in keys])
    matrix.apply(keys=[], rows=rows[:0], removed=keys[:2_900])
    found = matrix.snapshot().top(rows[0], question_terms("mot2950"), lexical_weight=1, limit=1)
    assert found[0][0] == 2_950
    assert found[0][2] > 0


scored = st.lists(
    st.tuples(st.integers(0, 40), st.floats(-1, 1), st.floats(0, 1)), max_size=20, unique_by=lambda hit: hit[0]
)


@given(scored, st.floats(0, 2), st.integers(1, 10), st.integers(0, 4))
def test_fusion_keeps_the_best_and_the_nearest(
    hits: list[tuple[int, float, float]], weight: float, limit: int, always: int
) -> None:
    ranked = rank_hybrid(hits, lexical_weight=weight, limit=limit, always=always)
    fused = [cosine + weight * overlap for _, cosine, overlap in ranked]
    assert fused == sorted(fused, reverse=True)
    assert len(ranked) <= limit + always
    best = max((cosine + weight * overlap for _, cosine, overlap in hits), default=None)
    assert not hits or fused[0] == best
    if always and hits:
        assert max(cosine for _, cosine, _ in ranked) == max(cosine for _, cosine, _ in hits)


def test_stemming_is_right_from_many_threads() -> None:
    several = [f"conservations{n % 50} données{n}" for n in range(400)]
    alone = [question_terms(text).ids.tolist() for text in several]
    word_terms.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: question_terms(text).ids.tolist(), several))
    assert together == alone
