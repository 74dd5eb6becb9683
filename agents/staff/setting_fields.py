"""Form fields for settings of which an empty one inherits: of each level, and of a question that is tried."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminNullBooleanSelectWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents.settings import KNOBS, SITE_KNOBS, Kind

_WIDGETS: dict[Kind, Any] = {
    "switch": UnfoldAdminNullBooleanSelectWidget,
    "choice": UnfoldAdminSelectWidget,
    "count": UnfoldAdminIntegerFieldWidget,
    "number": UnfoldAdminDecimalFieldWidget,
    "money": UnfoldAdminDecimalFieldWidget,
    "line": UnfoldAdminTextInputWidget,
    "text": UnfoldAdminTextareaWidget,
}


def setting_fields(*, of_site: bool = False) -> dict[str, forms.Field]:
    """A new field for each setting, by its name, in the admin's widget; none is required."""
    knobs = SITE_KNOBS if of_site else KNOBS
    return {name: knob.field(_WIDGETS[knob.kind]) for name, knob in knobs.items()}
