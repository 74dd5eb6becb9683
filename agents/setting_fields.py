"""Form fields of the settings; an empty one shows the value that will apply and the level it comes from.
`knowledge` registers the thresholds of the embedding model's profile here, because `agents` imports no other app.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.utils import formats
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminNullBooleanSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.effective import InheritedSetting, Level
from agents.settings import KNOBS, SITE_KNOBS, Kind


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The measured thresholds of the embedding model in use, by setting; none where it was never measured."""

    model: str
    thresholds: Mapping[str, float | None]


ProfileSource = Callable[[], ModelProfile | None]

#: The settings that an unmeasured embedding model leaves without a value.
THRESHOLD_SETTINGS = ("direct_answer_threshold", "guard_rail_threshold", "memory_threshold")

_LEVELS: dict[Level, str | Promise] = {
    "deployment": gettext_lazy("déploiement"),
    "agent": gettext_lazy("agent"),
    "site": gettext_lazy("réglages du site"),
    "default": gettext_lazy("valeur d’origine"),
    "profile": gettext_lazy("profil du modèle d’embedding"),
}
_profile_source: ProfileSource = lambda: None  # noqa: E731  # until `knowledge` registers its own


def register_profile_source(source: ProfileSource) -> None:
    """Register the function that returns the measured thresholds."""
    global _profile_source
    _profile_source = source


def current_profile() -> ModelProfile | None:
    return _profile_source()


def unmeasured_model() -> str:
    """The embedding model in use when its thresholds of answers were never measured, else an empty string."""
    profile = current_profile()
    if profile is None or any(name in profile.thresholds for name in THRESHOLD_SETTINGS):
        return ""
    return profile.model


def inherited_text(setting: InheritedSetting, profile: ModelProfile | None) -> str:
    """« Hérité : 0,72 (profil du modèle) »."""
    if setting.value is None and setting.level == "profile":
        value = _profile_text(setting.name, profile)
    else:
        value = _with_level(value_text(setting.name, setting.value), setting.level)
    return _("Hérité : %(value)s") % {"value": value}


def value_text(name: str, value: Any) -> str:
    """A setting's value in words."""
    if isinstance(value, bool):
        return _("Oui") if value else _("Non")
    if isinstance(value, (int, float)):
        return formats.localize(value)
    knob = SITE_KNOBS.get(name)
    if choice := dict(knob.choices if knob else ()).get(value):
        return str(choice)
    if value:
        return f"« {Truncator(str(value)).chars(120)} »"
    if name == "llm_model":
        return _("%(model)s, de la variable LLM_MODEL") % {"model": settings.LLM_MODEL}
    return _("rien")


def _profile_text(name: str, profile: ModelProfile | None) -> str:
    measured = profile.thresholds.get(name) if profile is not None else None
    if measured is None and name not in THRESHOLD_SETTINGS:
        return _("aucun seuil")
    if measured is None:
        return _("désactivé (pas de profil mesuré pour le modèle d’embedding)")
    return _with_level(formats.localize(measured), "profile")


def _with_level(text: str, level: Level) -> str:
    return f"{text} ({_LEVELS[level]})"


_WIDGETS: dict[Kind, Any] = {
    "switch": UnfoldAdminNullBooleanSelectWidget,
    "choice": UnfoldAdminSelectWidget,
    "count": UnfoldAdminIntegerFieldWidget,
    "number": UnfoldAdminDecimalFieldWidget,
    "line": UnfoldAdminTextInputWidget,
    "text": UnfoldAdminTextareaWidget,
}


def setting_fields(*, of_site: bool = False) -> dict[str, forms.Field]:
    """A new field for each setting, by its name, in the admin's widget; none is required."""
    knobs = SITE_KNOBS if of_site else KNOBS
    return {name: knob.field(_WIDGETS[knob.kind]) for name, knob in knobs.items()}
