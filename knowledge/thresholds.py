"""Thresholds belong to an embedding model: the profile of each known model; `benchmarks/thresholds` has what was
measured there.

An unknown model has none: direct and cached answers stay off until it is calibrated (`calibrate_thresholds`). What a
site calibrated is stored, and read again now and then (`load_calibrations`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from agents.cache import TtlCache
from knowledge.models import ThresholdCalibration

_Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` out of `total`, with the Wilson interval at 95 %."""

    hits: int
    total: int

    @property
    def rate(self) -> float:
        return self.hits / self.total if self.total else 0.0

    @property
    def low(self) -> float:
        return self._bounds()[0]

    @property
    def high(self) -> float:
        return self._bounds()[1]

    def _bounds(self) -> tuple[float, float]:
        if not self.total:
            return 0.0, 1.0
        share, n, z2 = self.rate, self.total, _Z95**2
        centre = share + z2 / (2 * n)
        spread = _Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
        return max(0.0, (centre - spread) / (1 + z2 / n)), min(1.0, (centre + spread) / (1 + z2 / n))

    def __str__(self) -> str:
        return f"{self.rate:.1%} [{self.low:.1%}; {self.high:.1%}] ({self.hits}/{self.total})"


@dataclass(frozen=True, slots=True)
class ThresholdProfile:
    """The thresholds of one model (all inclusive): cosines, `None` where not measured. A question lies much closer to
    questions, hence `guard_rail_questions`. `lexical_weight` is what having all words of the question adds in the order
    of passages, `coverage_weight` what it adds before the guard rails (`knowledge.search`)."""

    model: str
    direct_answer: float | None = None
    memory: float | None = None
    guard_rail: float | None = None
    #: From which two questions are taken to be about the same thing where no second key decides (grouping).
    same_meaning: float | None = None
    lexical_weight: float | None = None
    coverage_weight: float = 0.0
    guard_rail_questions: float | None = None
    #: What a chunk whose questions were found loses beside chunks that have none (`benchmarks/passages`).
    question_lead: float = 0.0
    #: From which score on a tool is offered (`benchmarks/tools/README.md`); None: the best are, whatever their scores.
    tool: float | None = None


_PROFILES: dict[str, ThresholdProfile] = {
    profile.model: profile
    for profile in (
        # Not measured: seed 001 §3.2, seed 000 §4, seed 004 §3. Seed 003 names no threshold of tools: semantic-router's.
        ThresholdProfile(model="text-embedding-3-small", direct_answer=0.95, memory=0.85, guard_rail=0.5, tool=0.30),
        ThresholdProfile(
            model="universal-sentence-encoder-multilingual-3",
            direct_answer=0.60,
            memory=0.60,
            guard_rail=0.32,
            same_meaning=0.75,
            lexical_weight=1.0,
            coverage_weight=0.40,
            guard_rail_questions=0.50,
            question_lead=0.10,
            tool=0.25,
        ),
    )
}


_calibrated: dict[tuple[str, str], ThresholdCalibration] = {}


def use_calibrations(calibrations: Iterable[ThresholdCalibration]) -> None:
    """Replace what this process knows of stored calibrations, at once: other threads read it meanwhile."""
    global _calibrated
    _calibrated = {(each.model, each.index): each for each in calibrations}


def threshold_profile(model: str, index: str = "") -> ThresholdProfile | None:
    """A stored calibration of this index, else of the model, over the shipped profile. Never queries."""
    shipped = _PROFILES.get(model)
    own = _calibrated.get((model, index)) or _calibrated.get((model, ""))
    if own is None:
        return shipped
    return replace(shipped or ThresholdProfile(model), direct_answer=own.direct_answer, memory=own.memory)


_loaded: TtlCache[None] = TtlCache("CALIBRATION_CACHE_SECONDS")


def load_calibrations() -> None:
    """Read the rows again when what this process knows has become too old. Touches the database."""
    _loaded.get(lambda: use_calibrations(ThresholdCalibration.objects.all()))


def forget_calibrations() -> None:
    """Have them read again at the next call; until then the shipped profiles hold."""
    use_calibrations(())
    _loaded.clear()


def store_calibration(row: ThresholdCalibration) -> None:
    """Keep one calibration for each model and index; a newer one replaces it."""
    same = ThresholdCalibration.objects.filter(model=row.model, index=row.index)
    row.pk = same.values_list("pk", flat=True).first()
    row.save()


@receiver([post_save, post_delete], sender=ThresholdCalibration)
def _changed(**_kwargs: Any) -> None:
    transaction.on_commit(forget_calibrations)
