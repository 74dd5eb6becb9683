"""Form fields for settings of which an empty one inherits: of a deployment, and of a question that is tried."""

from typing import Any

from django import forms
from django.db import models
from unfold.overrides import FORMFIELD_OVERRIDES
from unfold.widgets import UnfoldAdminNullBooleanSelectWidget, UnfoldAdminSelectWidget

from agents.models import Agent, RuntimeSettings


def setting_fields() -> dict[str, forms.Field]:
    """A new field for each setting, by its name; none is required."""
    knobs = RuntimeSettings.knobs()
    return {field.name: _setting_field(field) for field in Agent._meta.concrete_fields if field.name in knobs}


def _setting_field(knob: "models.Field[Any, Any]") -> forms.Field:
    """The agent's own form field of a setting, in the admin's widget, with the model's bounds."""
    widget = next(
        (FORMFIELD_OVERRIDES[kind]["widget"] for kind in type(knob).__mro__ if kind in FORMFIELD_OVERRIDES), None
    )
    if isinstance(knob, models.BooleanField):
        widget = UnfoldAdminNullBooleanSelectWidget
    if knob.choices:
        widget = UnfoldAdminSelectWidget
    field = knob.formfield(**({"widget": widget} if widget else {}))
    if field is None:
        raise TypeError(f"{knob.name} cannot be edited in a form.")
    field.validators.extend(rule for rule in knob.validators if rule not in field.validators)
    return field
