"""Threshold profiles: intervals are right, known models have one, and USE keeps its promise on the French pairs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import DatabaseError

from faqs.second_key.same_question import compare_questions
from knowledge.embeddings.base import Purpose
from knowledge.embeddings.local import UniversalSentenceEncoder
from knowledge.models import ThresholdCalibration
from knowledge.thresholds import Rate, threshold_profile, use_calibrations

PAIRS = Path(__file__).resolve().parents[2] / "pairs" / "everyday_fr.jsonl"
USE = "universal-sentence-encoder-multilingual-3"


def test_wilson_interval_has_its_known_values() -> None:
    rate = Rate(8, 10)
    assert (rate.low, rate.rate, rate.high) == pytest.approx((0.4902, 0.8, 0.9433), abs=1e-4)


def test_openai_profile_keeps_the_seeds_values() -> None:
    assert threshold_profile("hashing") is None, "it is unknown"
    profile = threshold_profile("text-embedding-3-small")
    assert profile is not None
    assert (profile.direct_answer, profile.memory, profile.guard_rail) == (0.95, 0.85, 0.5)


@pytest.mark.parametrize("model", ["text-embedding-3-small", USE])
def test_profiles_are_complete_and_ordered(model: str) -> None:
    profile = threshold_profile(model)
    assert profile is not None
    thresholds = (profile.guard_rail, profile.memory, profile.direct_answer)
    assert list(thresholds) == sorted(value for value in thresholds if value is not None)
    assert all(value is not None and 0 < value <= 1 for value in thresholds)


def test_use_serves_no_more_wrong_answers_than_were_measured() -> None:
    profile = threshold_profile(USE)
    assert profile is not None
    assert profile.memory is not None
    traps = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    traps = [pair for pair in traps if not pair["same_answer"]]
    model = UniversalSentenceEncoder()
    first, second = (model.embed([p[k] for p in traps], purpose=Purpose.QUERY) for k in "ab")
    served = [
        pair
        for pair, cosine in zip(traps, (first * second).sum(axis=1), strict=True)
        if cosine >= profile.memory and compare_questions(pair["a"], pair["b"]).agrees
    ]
    assert len(served) / len(traps) <= Rate(1, 120).high


def _calibrated(model: str = "hashing", index: str = "", threshold: float | None = 0.7) -> ThresholdCalibration:
    return ThresholdCalibration(model=model, index=index, direct_answer=threshold, memory=threshold)


@pytest.fixture
def _shipped_profiles_after() -> Iterator[None]:
    yield
    use_calibrations(())


@pytest.mark.usefixtures("_shipped_profiles_after")
def test_a_calibration_stands_over_the_shipped_profile() -> None:
    shipped = threshold_profile(USE)
    use_calibrations([_calibrated(USE)])
    profile = threshold_profile(USE)
    assert shipped is not None
    assert profile is not None
    assert (profile.direct_answer, profile.memory) == (0.7, 0.7)
    assert profile.guard_rail == shipped.guard_rail


@pytest.mark.usefixtures("_shipped_profiles_after")
def test_the_calibration_of_an_index_wins_over_the_models() -> None:
    use_calibrations([_calibrated(), _calibrated(index="library", threshold=None)])
    own, other = threshold_profile("hashing", "library"), threshold_profile("hashing", "town")
    assert own is not None
    assert other is not None
    assert (own.direct_answer, other.direct_answer, other.guard_rail) == (None, 0.7, None)


@pytest.mark.usefixtures("_shipped_profiles_after")
def test_calibrations_hold_until_the_new_ones_are_read_and_where_that_fails() -> None:
    use_calibrations([_calibrated()])
    meanwhile = []

    def failing() -> Iterator[ThresholdCalibration]:
        yield _calibrated(threshold=0.2)
        meanwhile.append(threshold_profile("hashing"))
        raise DatabaseError

    with pytest.raises(DatabaseError):
        use_calibrations(failing())
    profiles = [*meanwhile, threshold_profile("hashing")]
    assert [profile and profile.memory for profile in profiles] == [0.7, 0.7]
