"""Labelled pairs of questions through the code that serves: `check_pairs`, and thresholds drawn from them.

An answer is stored for `a`, and `b` is asked; `context_a` and `context_b` are the exchange before, which a side that
leans on it needs: nothing is stored for it, or served to it. Decisions are `would_serve`'s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from django.utils.translation import gettext_lazy as _

from agents.errors import ApplicationError
from chat.turn.standalone import standalone_question
from chat.turn.values import StandaloneQuestion
from faqs.second_key.same_question import Decision, would_serve
from knowledge.embeddings.base import Embedder, Purpose
from knowledge.language.spelling import NO_WORDS, Vocabulary
from knowledge.language.typed import read_typed
from knowledge.management.terminal import json_rows
from knowledge.models import PairVerdict, ThresholdCalibration
from knowledge.thresholds import Rate
from knowledge.vectors.base import batches

#: Fewer labelled pairs than this are measured, but thresholds drawn from them are not stored.
CALIBRATION_MIN_SAME = 20
CALIBRATION_MIN_DIFFERENT = 50

#: Pairs of one file of `check_pairs` or `calibrate_thresholds`.
MAX_PAIRS = 100_000

#: A threshold may give up this share of the most hits that the budget allows, and is as high as that permits.
_KEPT_HITS = 0.98
_STEPS = tuple(round(step / 100, 2) for step in range(100))
_BATCH = 64


class InvalidPairsError(ApplicationError):
    """A file of pairs that cannot be read; the detail names the line."""

    code = "invalid_pairs"
    default_message = _("Le fichier de paires n’est pas lisible.")


@dataclass(frozen=True, slots=True)
class Pair:
    a: str
    b: str
    same_answer: bool | None
    category: str
    context_a: str = ""
    context_b: str = ""
    #: What was answered to `context_a` and `context_b`, where the file says so.
    answer_a: str = ""
    answer_b: str = ""


@dataclass(frozen=True, slots=True)
class CheckedPair:
    pair: Pair
    decision: Decision

    def as_json(self) -> dict[str, Any]:
        pair = self.pair
        return {
            "a": pair.a,
            "b": pair.b,
            "category": pair.category,
            "same_answer": pair.same_answer,
            "served": self.decision.served,
            "score": round(self.decision.score, 4),
            "reasons": list(self.decision.reasons),
            "outcome": self.decision.outcome.value,
        }


def read_pairs(path: Path) -> list[Pair]:
    """One JSON object a line. Raises `InvalidPairsError` with the line that is wrong."""
    try:
        pairs = [_pair(row, place) for place, row in islice(json_rows(path), MAX_PAIRS + 1)]
    except ValueError as error:
        raise InvalidPairsError(str(error)) from error
    if len(pairs) > MAX_PAIRS:
        raise InvalidPairsError(f"{path} has more than {MAX_PAIRS} pairs.")
    if not pairs:
        raise InvalidPairsError(f"{path} holds no pair.")
    return pairs


def _pair(row: dict[str, Any], place: str) -> Pair:
    for name in ("a", "b"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise InvalidPairsError(f"{place}: `{name}` must be a question.")
    same = row.get("same_answer")
    if same is not None and not isinstance(same, bool):
        raise InvalidPairsError(f"{place}: `same_answer` must be true or false.")
    (context_a, answer_a), (context_b, answer_b) = _exchange(row.get("context_a")), _exchange(row.get("context_b"))
    return Pair(row["a"], row["b"], same, str(row.get("category") or ""), context_a, context_b, answer_a, answer_b)


def _exchange(value: Any) -> tuple[str, str]:
    """The exchange before, given as its question, as `{"question": …, "answer": …}`, or as `[question, answer]`."""
    if isinstance(value, dict):
        value = [
            value.get("question") or value.get("user") or value.get("content"),
            value.get("answer") or value.get("assistant"),
        ]
    parts = [*value, "", ""][:2] if isinstance(value, list) else [value, ""]
    question, answer = (part if isinstance(part, str) else "" for part in parts)
    return question, answer


def verdict_pairs(*, index: str = "") -> list[Pair]:
    """Staff's own verdicts as pairs; those of one agent when it is named."""
    rows = PairVerdict.objects.filter(index=index) if index else PairVerdict.objects.all()
    return [
        Pair(a=row.stored, b=row.asked, same_answer=row.same_answer, category="verdict")
        for row in rows.order_by("pk")[:MAX_PAIRS]
    ]


def check_pairs(
    pairs: Sequence[Pair], *, embedder: Embedder, threshold: float | None, vocabulary: Vocabulary = NO_WORDS
) -> Iterator[CheckedPair]:
    """For each pair: would the answer stored for `a` be served to `b`? Both are read, with the words of the vocabulary."""

    def read(question: str) -> str:
        return read_typed(question, vocabulary).text

    for part in batches(pairs, _BATCH):
        stored = [standalone_question(read(pair.a), pair.context_a, pair.answer_a) for pair in part]
        asked = [standalone_question(read(pair.b), pair.context_b, pair.answer_b) for pair in part]
        scores = _scores(embedder, stored, asked)
        for pair, one, two, score in zip(part, stored, asked, scores, strict=True):
            leans = one.is_follow_up or two.is_follow_up
            decision = would_serve(
                stored=one.text, asked=two.text, score=score, threshold=threshold, is_follow_up=leans
            )
            yield CheckedPair(pair, decision)


def _scores(embedder: Embedder, stored: list[StandaloneQuestion], asked: list[StandaloneQuestion]) -> list[float]:
    """Stored and asked questions are embedded alike: a question's point holds its question's vector."""
    texts = [side.text for side in (*stored, *asked)]
    rows = embedder.embed(texts, purpose=Purpose.QUERY)
    half = len(stored)
    return [float(one @ two) for one, two in zip(rows[:half], rows[half:], strict=True)]


def summarise(checked: Iterable[CheckedPair]) -> dict[str, Any]:
    """Served among same-answer pairs (`hits`) and among the others (`false_hits`), by category and in all."""
    everything = list(checked)
    names = sorted({each.pair.category for each in everything})
    return {
        "by_category": {name: _figures([each for each in everything if each.pair.category == name]) for name in names},
        "all": _figures(everything),
    }


def _figures(group: list[CheckedPair]) -> dict[str, Any]:
    same = [each.decision.served for each in group if each.pair.same_answer is True]
    different = [each.decision.served for each in group if each.pair.same_answer is False]
    return {
        "pairs": len(group),
        "served": sum(each.decision.served for each in group),
        "same_answer": len(same),
        "hits": sum(same),
        "hit_rate": rate_json(Rate(sum(same), len(same))) if same else None,
        "different_answer": len(different),
        "false_hits": sum(different),
        "false_hit_rate": rate_json(Rate(sum(different), len(different))) if different else None,
    }


def rate_json(rate: Rate) -> dict[str, float]:
    return {
        "rate": round(rate.rate, 4),
        "low": round(rate.low, 4),
        "high": round(rate.high, 4),
        "hits": rate.hits,
        "total": rate.total,
    }


@dataclass(frozen=True, slots=True)
class Step:
    """What one threshold lets through, second key included."""

    threshold: float
    hit: Rate
    false_hit: Rate


@dataclass(frozen=True, slots=True)
class Proposal:
    steps: tuple[Step, ...]
    #: The threshold within the budget, or nothing: then direct and cached answers had better stay off.
    chosen: Step | None
    budget: float
    #: Enough pairs to be believed.
    is_enough: bool

    def calibrated(self, *, model: str, index: str, source: str) -> ThresholdCalibration:
        best = self.chosen or self.steps[-1]
        threshold = self.chosen.threshold if self.chosen else None
        return ThresholdCalibration(
            model=model,
            index=index,
            direct_answer=threshold,
            memory=threshold,
            budget=self.budget,
            hits=best.hit.hits,
            same_pairs=best.hit.total,
            false_hits=best.false_hit.hits,
            different_pairs=best.false_hit.total,
            source=source[:250],
        )


def propose_thresholds(pairs: Sequence[Pair], *, embedder: Embedder, budget: float) -> Proposal:
    """The rates at each step, and the highest, for both exits, that keeps nearly all hits within the budget."""
    labelled = [pair for pair in pairs if pair.same_answer is not None]
    checked = [
        (each.pair.same_answer, each.decision.served, each.decision.score)
        for each in check_pairs(labelled, embedder=embedder, threshold=-1.0)
    ]
    same = [score if served else None for is_same, served, score in checked if is_same]
    different = [score if served else None for is_same, served, score in checked if not is_same]
    rows = tuple(Step(step, _at(step, same), _at(step, different)) for step in _STEPS)
    allowed = [row for row in rows if row.false_hit.rate <= budget and row.hit.hits > 0]
    most = max((row.hit.hits for row in allowed), default=0)
    chosen = max(
        (row for row in allowed if row.hit.hits >= _KEPT_HITS * most), key=lambda row: row.threshold, default=None
    )
    enough = len(same) >= CALIBRATION_MIN_SAME and len(different) >= CALIBRATION_MIN_DIFFERENT
    return Proposal(rows, chosen, budget, enough)


def _at(threshold: float, scores: list[float | None]) -> Rate:
    return Rate(sum(score is not None and score >= threshold for score in scores), len(scores))
