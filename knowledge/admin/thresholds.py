"""Measured thresholds: the calibrations of the site, and staff's word on pairs of questions."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agents.admin_base import StaffAdmin
from agents.staff.inheritance import ModelProfile, register_profile_source
from knowledge.calibration.profiles import Rate, threshold_profile
from knowledge.calibration.stored import load_calibrations
from knowledge.embeddings.base import embedder
from knowledge.models import PairVerdict, ThresholdCalibration


def _profile_in_use() -> ModelProfile:
    """The measured thresholds of the embedding model in use, for the settings pages of `agents`."""
    model = embedder().recipe.model
    load_calibrations()
    profile = threshold_profile(model)
    if profile is None:
        return ModelProfile(model=model, thresholds={})
    return ModelProfile(
        model=model,
        thresholds={
            "direct_answer_threshold": profile.direct_answer,
            "guard_rail_threshold": profile.guard_rail,
            "memory_threshold": profile.memory,
        },
    )


register_profile_source(_profile_in_use)


@admin.register(ThresholdCalibration)
class ThresholdCalibrationAdmin(StaffAdmin):
    """What `calibrate_thresholds` kept. Deleting a row brings the shipped profile back, if there is one."""

    purpose = _("Les seuils mesurés : à partir de quelle proximité une réponse est donnée.")
    list_display = ("model", "index", "direct_answer", "memory", "hit", "false_hit", "created_at")
    list_filter = ("model",)
    search_fields = ("model", "index", "source")
    readonly_fields = tuple(field.name for field in ThresholdCalibration._meta.fields if not field.primary_key)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=_("bonnes réponses"))
    def hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.hits, row.same_pairs))

    @admin.display(description=_("mauvaises réponses"))
    def false_hit(self, row: ThresholdCalibration) -> str:
        return str(Rate(row.false_hits, row.different_pairs))


@admin.register(PairVerdict)
class PairVerdictAdmin(StaffAdmin):
    purpose = _("Paires de questions jugées par l’équipe, dont les calibrages se servent.")
    list_display = ("stored", "asked", "same_answer", "index", "created_at")
    list_filter = ("same_answer", "index")
    list_select_related = False
    search_fields = ("stored", "asked")
    fields = ("stored", "asked", "same_answer", "index")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.decided_by = request.user if not change else obj.decided_by
        super().save_model(request, obj, form, change)
