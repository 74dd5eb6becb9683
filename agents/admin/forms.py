"""Forms of the admin for settings at three levels: every override has its inherited value beside it.

An empty field inherits. `DeploymentForm` edits `config_overlay` through one typed field a setting, and writes only the
keys that are set; what it cannot show (unknown keys, invalid values that a script left) is kept and listed.
"""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from agents.effective import InheritedSetting, inherited_settings
from agents.face import logo_png
from agents.models import Deployment, IndexingMethod, Logo, RuntimeSettings, overlay_errors
from agents.staff.inheritance import ModelProfile, current_profile, inherited_method_text, inherited_text, value_text
from agents.staff.setting_fields import setting_fields

#: The generated fields of a deployment are named apart from the model's own.
OVERLAY_PREFIX = "overlay_"
METHOD_FIELD = f"{OVERLAY_PREFIX}indexing_method"
TEXT_ROWS = 3


class SettingsForm(forms.ModelForm[Any]):
    """Most texts here are a few lines; the theme's ten would push the settings off the page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs["rows"] = TEXT_ROWS


class AgentForm(SettingsForm):
    """An agent; each setting left empty comes from the site."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _describe_all(self.fields, inherited_settings())
        if (method := self.fields.get("indexing_method")) is not None:
            method.help_text = _methods_text()


class RuntimeSettingsForm(SettingsForm):
    """The site's values; an empty threshold comes from the embedding model's profile."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        profile = current_profile()
        for name, knob in RuntimeSettings.knobs().items():
            if knob.null and name in self.fields:
                empty = InheritedSetting(name, None, "profile")
                _add_help(self.fields[name], inherited_text(empty, profile))


class DeploymentForm(SettingsForm):
    """A deployment, and a field for each setting that its overlay may hold (added below the class)."""

    logo_file = forms.FileField(
        label=_("logo"),
        required=False,
        widget=UnfoldAdminFileFieldWidget(attrs={"accept": "image/png,image/jpeg,image/webp"}),
        help_text=_(
            "PNG, JPEG ou WebP, 2 Mo au plus ; réduit à 480 × 160 pixels. Sur papier sombre, il est posé sur du blanc."
        ),
    )
    without_logo = forms.BooleanField(label=_("retirer le logo"), required=False, widget=UnfoldBooleanSwitchWidget)

    class Meta:
        model = Deployment
        exclude = ("config_overlay", "logo")  # noqa: DJ006  # written by `save`

    def clean_logo_file(self) -> bytes | None:
        file = self.cleaned_data.get("logo_file")
        return logo_png(file) if file else None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = self.instance.config_overlay
        overlay = stored if isinstance(stored, dict) else {}
        self.kept = {key: value for key, value in overlay.items() if not _is_editable(key, value)}
        for key, value in overlay.items():
            if key not in self.kept:
                self.initial.setdefault(OVERLAY_PREFIX + key, value)
        agent = self.instance.agent if self.instance.agent_id else None
        _describe_all(self.fields, inherited_settings(agent), prefix=OVERLAY_PREFIX)
        if (method := self.fields.get(METHOD_FIELD)) is not None:
            empty = _("Laissez vide pour hériter de l’agent.")
            method.help_text = f"{empty} {_methods_text()}"
            if agent is not None:
                _add_help(method, inherited_method_text(agent))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # What cannot be edited here is held apart: the model's own validation would refuse it, and it would be lost.
        self.instance.config_overlay = {
            name.removeprefix(OVERLAY_PREFIX): cleaned[name]
            for name in overlay_field_names()
            if cleaned.get(name) not in (None, "")
        }
        return cleaned

    def save(self, commit: bool = True) -> Any:
        self.instance.config_overlay = {**self.kept, **self.instance.config_overlay}
        if self.cleaned_data.get("logo_file"):
            self.instance.logo = Logo.of(self.cleaned_data["logo_file"])
        elif self.cleaned_data.get("without_logo"):
            self.instance.logo = None
        return super().save(commit)


def overlay_field_names() -> list[str]:
    return [OVERLAY_PREFIX + name for name in RuntimeSettings.knobs()] + [METHOD_FIELD]


def _methods_text() -> str:
    """What each indexing method does."""
    return " ".join(f"{method.label} : {method.description}" for method in IndexingMethod)


def _is_editable(key: str, value: Any) -> bool:
    """Whether the generated field of `key` can show this stored value and give it back unchanged."""
    knob = RuntimeSettings.knobs().get(key)
    return not overlay_errors(key, value) and (knob is None or knob.clean(value, None) == value)


def _describe_all(fields: dict[str, forms.Field], settings: list[InheritedSetting], *, prefix: str = "") -> None:
    profile = current_profile()
    for setting in settings:
        field = fields.get(prefix + setting.name)
        if field is not None:
            _describe_field(field, setting, profile)


def _describe_field(field: forms.Field, setting: InheritedSetting, profile: ModelProfile | None) -> None:
    text = inherited_text(setting, profile)
    if isinstance(field, forms.NullBooleanField):
        inherited = value_text(setting.name, setting.value)
        field.widget.choices = [
            ("unknown", _("Hériter (%(value)s)") % {"value": inherited}),
            ("true", _("Oui")),
            ("false", _("Non")),
        ]
    else:
        field.widget.attrs["placeholder"] = _("Hériter")
    _add_help(field, text)


def _add_help(field: forms.Field, text: str) -> None:
    """The inherited value first: it is what staff look for."""
    field.help_text = f"{text}. {field.help_text}" if field.help_text else f"{text}."


for _name, _field in setting_fields().items():
    DeploymentForm.declared_fields[OVERLAY_PREFIX + _name] = _field
DeploymentForm.declared_fields[METHOD_FIELD] = forms.ChoiceField(
    label=_("Méthode d’indexation"),
    choices=[("", _("Hériter de l’agent")), *IndexingMethod.choices],
    required=False,
    widget=UnfoldAdminSelectWidget,
)
DeploymentForm.base_fields.update(DeploymentForm.declared_fields)
