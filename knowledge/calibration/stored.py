"""The stored calibrations: read now and then into `knowledge.calibration.profiles`, written by `calibrate_thresholds`.

A turn calls `load_calibrations` in its database step and pays one query a minute, not one a turn; a change made by
another process is seen within `CALIBRATION_CACHE_SECONDS`, one made here at once.
"""

from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from agents.cache import TtlCache
from knowledge.calibration.profiles import Calibrated, Rate, use_calibrations
from knowledge.models import ThresholdCalibration

_loaded: TtlCache[None] = TtlCache("CALIBRATION_CACHE_SECONDS")


def load_calibrations() -> None:
    """Read the rows again when what this process knows has become too old. Touches the database."""
    _loaded.get(_load)


def _load() -> None:
    use_calibrations([_value(row) for row in ThresholdCalibration.objects.all()])


def forget_calibrations() -> None:
    """Have them read again at the next call; until then the shipped profiles hold."""
    use_calibrations(())
    _loaded.clear()


def store_calibration(value: Calibrated, *, budget: float) -> ThresholdCalibration:
    """Keep one calibration for each model and index; a newer one replaces it."""
    with transaction.atomic():
        row, _created = ThresholdCalibration.objects.update_or_create(
            model=value.model,
            index=value.index,
            defaults={
                "direct_answer": value.direct_answer,
                "memory": value.memory,
                "budget": budget,
                "hits": value.hit.hits,
                "same_pairs": value.hit.total,
                "false_hits": value.false_hit.hits,
                "different_pairs": value.false_hit.total,
                "source": value.source[:250],
            },
        )
    return row


@receiver([post_save, post_delete], sender=ThresholdCalibration)
def _changed(**_kwargs: Any) -> None:
    transaction.on_commit(forget_calibrations)


def _value(row: ThresholdCalibration) -> Calibrated:
    return Calibrated(
        model=row.model,
        index=row.index,
        direct_answer=row.direct_answer,
        memory=row.memory,
        source=row.source,
        hit=Rate(row.hits, row.same_pairs),
        false_hit=Rate(row.false_hits, row.different_pairs),
    )
