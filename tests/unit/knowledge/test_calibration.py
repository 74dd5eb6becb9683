"""Threshold profiles: intervals are right, known models have one, and USE keeps its promise on the French pairs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faqs.agreement import compare_questions
from knowledge.calibration import Rate, known_models, threshold_profile
from knowledge.embeddings.base import Purpose
from knowledge.embeddings.local import UniversalSentenceEncoder

PAIRS = Path(__file__).resolve().parents[2] / "pairs_fr.jsonl"
USE = "universal-sentence-encoder-multilingual-3"


def test_wilson_interval_has_its_known_values() -> None:
    rate = Rate(8, 10)
    assert (rate.low, rate.rate, rate.high) == pytest.approx((0.4902, 0.8, 0.9433), abs=1e-4)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_contains_its_rate(hits: int, more: int) -> None:
    rate = Rate(hits, hits + more)
    assert 0.0 <= rate.low <= rate.rate <= rate.high <= 1.0


def test_more_hits_than_cases_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a rate"):
        Rate(2, 1)


def test_an_unknown_model_has_no_profile() -> None:
    assert threshold_profile("hashing") is None


def test_openai_profile_keeps_the_seeds_values() -> None:
    profile = threshold_profile("text-embedding-3-small")
    assert profile is not None
    assert (profile.direct_answer, profile.memory, profile.guard_rail) == (0.95, 0.85, 0.5)
    assert not profile.measured


@pytest.mark.parametrize("model", known_models())
def test_profiles_are_complete_and_ordered(model: str) -> None:
    profile = threshold_profile(model)
    assert profile is not None
    assert 0 < profile.guard_rail <= profile.memory <= profile.direct_answer <= 1
    rates = (profile.direct_hit, profile.direct_false_hit, profile.guard_pass)
    assert all((rate is not None) == profile.measured for rate in rates)
    assert profile.source


def test_use_serves_no_more_wrong_answers_than_its_profile_says() -> None:
    profile = threshold_profile(USE)
    assert profile is not None
    assert profile.direct_false_hit is not None
    traps = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    traps = [pair for pair in traps if not pair["same_answer"]]
    model = UniversalSentenceEncoder()
    first, second = (model.embed([p[k] for p in traps], purpose=Purpose.QUERY) for k in "ab")
    served = [
        pair
        for pair, cosine in zip(traps, (first * second).sum(axis=1), strict=True)
        if cosine >= profile.memory and compare_questions(pair["a"], pair["b"]).agrees
    ]
    assert len(served) / len(traps) <= profile.direct_false_hit.high
