"""Forms of the admin for settings at three levels; an empty field inherits, and what it would inherit stands beside it.
What a form cannot show (unknown keys, invalid values that a script left) is kept, and listed.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldBooleanSwitchWidget

from agents.branding import logo_png
from agents.effective import InheritedSetting, inherited_settings
from agents.llm.base import language_model
from agents.models import VERIFIER_CHECK, Deployment, IndexingMethod, Job, JobKind, JobStatus, Logo
from agents.setting_fields import (
    ModelProfile,
    current_profile,
    inherited_method_text,
    inherited_text,
    setting_fields,
    value_text,
)
from agents.settings import KNOBS, SITE_KNOBS, Knob, setting_errors

#: The generated fields of a deployment are named apart from the model's own.
OVERLAY_PREFIX = "overlay_"
METHOD = "indexing_method"
METHOD_FIELD = OVERLAY_PREFIX + METHOD
TEXT_ROWS = 3


class SettingsForm(forms.ModelForm[Any]):
    """A row with a field for each setting of its level (`with_settings`); what is left empty inherits."""

    #: The column that holds the settings, the start of their fields' names, and which there are.
    column: ClassVar[str] = "settings"
    prefix_of_settings: ClassVar[str] = ""
    knobs: ClassVar[Mapping[str, Knob]] = KNOBS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = getattr(self.instance, self.column)
        values = stored if isinstance(stored, dict) else {}
        self.kept = {key: value for key, value in values.items() if not self._is_editable(key, value)}
        for key, value in values.items():
            if key not in self.kept:
                self.initial.setdefault(self.prefix_of_settings + key, value)
        profile = current_profile()
        for setting in self.inherited():
            field = self.fields.get(self.prefix_of_settings + setting.name)
            if field is not None:
                _describe_field(field, setting, profile)
        for field in self.fields.values():
            # Most texts here are a few lines; the theme's ten would push the settings off the page.
            if isinstance(field.widget, forms.Textarea):
                field.widget.attrs["rows"] = TEXT_ROWS

    def inherited(self) -> list[InheritedSetting]:
        return inherited_settings()

    def setting_names(self) -> list[str]:
        return list(self.knobs)

    def _is_editable(self, key: str, value: Any) -> bool:
        """Whether the field of `key` can show this stored value and give it back unchanged."""
        knob = self.knobs.get(key)
        return knob is not None and not setting_errors(key, value, self.knobs) and knob.clean(value) == value

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        # What cannot be edited here is held apart: the model's own validation would refuse it, and it would be lost.
        found = {name: cleaned.get(self.prefix_of_settings + name) for name in self.setting_names()}
        values = {
            name: self.knobs[name].clean(value) if name in self.knobs else value
            for name, value in found.items()
            if value not in (None, "")
        }
        setattr(self.instance, self.column, values)
        if values.get("verify_answers") and self._fails_the_verifier(values):
            said = _("Ce modèle a échoué à juger des paires de questions : voyez « Vérifier le modèle de langage ».")
            self.add_error(f"{self.prefix_of_settings}verify_answers", said)
        return cleaned

    def _fails_the_verifier(self, values: Mapping[str, Any]) -> bool:
        """Whether the last check of the model that would be used found that it tells no questions apart."""
        above = next((each.value for each in self.inherited() if each.name == "llm_model"), "")
        llm = language_model()
        model = values.get("llm_model") or above or (llm.default_model if llm else "")
        checks = Job.objects.filter(kind=JobKind.MODEL_CHECK, status=JobStatus.DONE, report__model=model)
        last = checks.order_by("-pk").first()
        rows = last.report["rows"] if last else []
        return any(row["check"] == VERIFIER_CHECK and not row["passed"] for row in rows)

    def save(self, commit: bool = True) -> Any:
        setattr(self.instance, self.column, {**self.kept, **getattr(self.instance, self.column)})
        return super().save(commit)


def with_settings(form: type[SettingsForm]) -> None:
    """Give a form its fields of settings."""
    for name, field in setting_fields(of_site=form.knobs is SITE_KNOBS).items():
        form.declared_fields[form.prefix_of_settings + name] = field
    form.base_fields.update(form.declared_fields)


class AgentForm(SettingsForm):
    """An agent; each setting left empty comes from the site."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (method := self.fields.get("indexing_method")) is not None:
            method.help_text = _methods_text()


class RuntimeSettingsForm(SettingsForm):
    """The site's values; an empty one is the default, or that of the embedding model's profile."""

    column = "values"
    knobs = SITE_KNOBS

    def inherited(self) -> list[InheritedSetting]:
        return [
            InheritedSetting(name, knob.default, "profile" if knob.default is None else "default")
            for name, knob in SITE_KNOBS.items()
        ]


class DeploymentForm(SettingsForm):
    """A deployment, whose overlay may also name an indexing method."""

    column = "config_overlay"
    prefix_of_settings = OVERLAY_PREFIX

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
        if (method := self.fields.get(METHOD_FIELD)) is not None:
            empty = _("Laissez vide pour hériter de l’agent.")
            method.help_text = f"{empty} {_methods_text()}"
            if self.instance.agent_id:
                _add_help(method, inherited_method_text(self.instance.agent))

    def inherited(self) -> list[InheritedSetting]:
        return inherited_settings(self.instance.agent if self.instance.agent_id else None)

    def setting_names(self) -> list[str]:
        return [*self.knobs, METHOD]

    def _is_editable(self, key: str, value: Any) -> bool:
        return value in IndexingMethod.values if key == METHOD else super()._is_editable(key, value)

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data.get("logo_file"):
            self.instance.logo = Logo.of(self.cleaned_data["logo_file"])
        elif self.cleaned_data.get("without_logo"):
            self.instance.logo = None
        return super().save(commit)


def _methods_text() -> str:
    """What each indexing method does."""
    return " ".join(f"{method.label} : {method.description}" for method in IndexingMethod)


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


for _form in (AgentForm, RuntimeSettingsForm, DeploymentForm):
    with_settings(_form)
DeploymentForm.base_fields[METHOD_FIELD] = DeploymentForm.declared_fields[METHOD_FIELD] = forms.ChoiceField(
    label=_("Méthode d’indexation"),
    choices=[("", _("Hériter de l’agent")), *IndexingMethod.choices],
    required=False,
    widget=UnfoldAdminSelectWidget,
)
